// The one piece of memory of a device: exactly as many bytes as the program says, and a guard.
//
// What is called measured is measured here: before step 0 every word holds a pattern that no legal
// value takes, and at the end the highest word that changed says how much was used. Ranges are
// handed out before `seal`; afterwards a request is an Error, so nothing allocates inside a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace plimsoll {

// The fill pattern. As f32 it is a signalling NaN (exponent all ones, top bit of the fraction 0):
// arithmetic only ever gives quiet NaNs, so no kernel computes it. Each half is a signalling NaN as
// bf16 and a NaN as f16 (fraction bits 1110100101). As i32 it is -5,898,331: neither a token nor
// the -100 of an ignored target. As u8 its bytes 0xA5 and 0xFF are no mask. As f64 two of them are
// -7.6e306, which no sum of losses reaches.
inline constexpr uint32_t kArenaPattern = 0xFFA5FFA5U;

// What released buffers hold in debug builds: a signalling NaN too, but told apart from the pattern
// of memory that was never written.
inline constexpr uint32_t kPoisonPattern = 0xFFA6FFA6U;

inline constexpr int64_t kArenaGuardBytes = 4096;

class Arena {
 public:
  // Maps `bytes` and the guard, filled with the pattern. Throws Error: exit 3 when bytes >
  // cap_bytes (the message names both), exit 4 when the system refuses the memory.
  Arena(int64_t bytes, int64_t cap_bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Address of [offset, offset + bytes). Throws Error: exit 4 after `seal`, exit 2 when the range
  // leaves the arena. `what` names the range in the message.
  [[nodiscard]] std::byte* allocate(int64_t offset, int64_t bytes, const std::string& what);
  void seal() { sealed_ = true; }
  [[nodiscard]] bool sealed() const { return sealed_; }

  [[nodiscard]] int64_t bytes() const { return bytes_; }

  // End of the highest 4-byte word that differs from the pattern, rounded up to `alignment`.
  [[nodiscard]] int64_t measured_bytes(int64_t alignment) const;
  // Whether all words behind the arena still hold the pattern.
  [[nodiscard]] bool guard_intact() const;

 private:
  std::byte* base_ = nullptr;
  int64_t bytes_ = 0;
  int64_t mapped_bytes_ = 0;
  bool sealed_ = false;
};

// Writes the poison pattern over the words of [begin, begin + bytes) that do not hold the fill
// pattern: what was never written stays recognisable.
void poison_bytes(std::byte* begin, int64_t bytes);

}  // namespace plimsoll
