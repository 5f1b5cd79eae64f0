// What is remembered of each word of device or shared memory, to find races and uninitialised
// reads.
//
// Time is counted in intervals: a number that rises at every launch, block and block barrier. An
// access of an earlier interval of the same block is ordered by the barrier between them; within an
// interval only accesses of one thread, or of one warp with a warp barrier between them, are.
#pragma once

#include <cstdint>

namespace plimsoll::emulation {

inline constexpr int64_t kShadowWordBytes = 4;

// Who is asking: a thread of a running block.
struct Accessor {
  uint32_t launch_interval = 0;  // the first of the launch
  uint32_t block_interval = 0;   // the first of the block
  uint32_t interval = 0;
  uint16_t thread = 0;     // in the block
  uint16_t warp_sync = 0;  // warp barriers passed so far
  [[nodiscard]] int warp() const { return thread / 32; }
};

enum class Access : uint8_t { kRead, kWrite, kAtomic };

enum class Conflict : uint8_t { kNone, kUninitialised, kThread, kBlock };

class ShadowWord {
 public:
  // Looks for a conflict of an access to the bytes of `mask` (bit k: byte k) and remembers it.
  // `other` gets the thread that the access conflicts with.
  Conflict note(const Accessor& who, Access access, uint8_t mask, bool must_be_written, int* other);

 private:
  enum Kind : uint8_t { kOne, kWarp, kMany, kByAtomic };
  struct Mark {
    uint32_t interval = 0;
    uint16_t thread = 0;
    uint16_t warp_sync = 0;
    uint8_t mask = 0;
    Kind kind = kOne;
  };
  [[nodiscard]] static bool is_ordered(const Mark& mark, const Accessor& who);

  Mark write_;
  Mark read_;
};

}  // namespace plimsoll::emulation
