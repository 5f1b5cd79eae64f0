// The happens-before order inside one iteration of a segment's body.
//
// Instruction `a` happens before `b` when both are on one stream and `a` comes first, or `b` waits
// for `a`, or by a chain of these. All streams are joined between iterations and between segments,
// so the order of one body is all there is to know. A send is the exception on its own stream: it
// is done only for those that wait for it from another one (sends_done_at), so that a receive
// behind it need not. Vector clocks (one entry a stream) hold it in O(instructions * streams)
// memory.
#pragma once

#include "program/program.h"

#include <array>
#include <cstdint>
#include <vector>

namespace plimsoll {

// For each instruction of a body that is a send, the first instruction of another stream that names
// it in its waits, the body's size when there is none: it is done when the iteration ends. 0 for
// others. Who waits for a later receive has not waited for the send.
[[nodiscard]] std::vector<int64_t> sends_done_at(const std::vector<Instruction>& body);

class BodyOrder {
 public:
  // Precondition: waits name earlier instructions of the body (a rule of `verify`).
  explicit BodyOrder(const std::vector<Instruction>& body);

  // True when `earlier` is done before `later` starts, or they are the same instruction.
  [[nodiscard]] bool ordered(int64_t earlier, int64_t later) const;

  // The smallest position r > index such that every instruction at or after r in the list happens
  // after `index`; the body's size when there is none. Bytes that `index` used last are free from r
  // on: an instruction that may run beside `index` is always below r.
  [[nodiscard]] int64_t release(int64_t index) const {
    return single_stream_ ? index + 1 : release_[static_cast<size_t>(index)];
  }

  [[nodiscard]] bool single_stream() const { return single_stream_; }

 private:
  using Clock = std::array<int64_t, kNumStreams>;  // last position on each stream that is done

  bool single_stream_ = true;
  std::vector<uint8_t> stream_;
  std::vector<Clock> clock_;
  std::vector<int64_t> release_;
};

}  // namespace plimsoll
