#include "program/order.h"

#include "base/error.h"

#include <algorithm>

namespace plimsoll {

std::vector<int64_t> sends_done_at(const std::vector<Instruction>& body) {
  const auto size = static_cast<int64_t>(body.size());
  std::vector<int64_t> done;
  for (const Instruction& instruction : body) done.push_back(instruction.op == "send" ? size : 0);
  for (size_t p = 0; p < body.size(); ++p) {
    for (const int wait : body[p].waits) {
      const Instruction& awaited = body[static_cast<size_t>(wait)];
      int64_t& at = done[static_cast<size_t>(wait)];
      if (awaited.stream != body[p].stream) at = std::min(at, static_cast<int64_t>(p));
    }
  }
  return done;
}

BodyOrder::BodyOrder(const std::vector<Instruction>& body) {
  for (const Instruction& instruction : body) {
    single_stream_ = single_stream_ && instruction.stream == body.front().stream;
  }
  if (single_stream_) return;

  Clock none;
  none.fill(-1);
  std::array<Clock, kNumStreams> newest;  // clock of the last instruction on each stream
  newest.fill(none);
  stream_.reserve(body.size());
  clock_.reserve(body.size());
  for (size_t p = 0; p < body.size(); ++p) {
    const auto stream = static_cast<size_t>(body[p].stream);
    Clock clock = newest[stream];
    for (const int wait : body[p].waits) {
      PLIMSOLL_CHECK(wait >= 0 && static_cast<size_t>(wait) < p, "instruction {} waits for {}", p,
                     wait);
      const Clock& other = clock_[static_cast<size_t>(wait)];
      for (size_t s = 0; s < kNumStreams; ++s) clock[s] = std::max(clock[s], other[s]);
    }
    clock[stream] = static_cast<int64_t>(p);
    newest[stream] = clock;
    stream_.push_back(static_cast<uint8_t>(stream));
    clock_.push_back(clock);
  }

  // Walking back from the end, `floor[s]` is the newest instruction of stream s that all of the
  // list's rest waits for; it never grows on the way, so each stream's pointer moves once over the
  // list.
  std::vector<Clock> floor(body.size());
  Clock lowest;
  lowest.fill(static_cast<int64_t>(body.size()));
  for (size_t p = body.size(); p-- > 0;) {
    for (size_t s = 0; s < kNumStreams; ++s) lowest[s] = std::min(lowest[s], clock_[p][s]);
    floor[p] = lowest;
  }
  std::array<size_t, kNumStreams> next{};
  release_.reserve(body.size());
  for (size_t p = 0; p < body.size(); ++p) {
    const size_t s = stream_[p];
    next[s] = std::max(next[s], p + 1);
    while (next[s] < body.size() && floor[next[s]][s] < static_cast<int64_t>(p)) ++next[s];
    release_.push_back(static_cast<int64_t>(next[s]));
  }

  // A message is under way while later ones are received.
  const std::vector<int64_t> done_at = sends_done_at(body);
  for (size_t p = 0; p < body.size(); ++p) release_[p] = std::max(release_[p], done_at[p]);
}

bool BodyOrder::ordered(int64_t earlier, int64_t later) const {
  if (single_stream_) return earlier <= later;
  return clock_[static_cast<size_t>(later)][stream_[static_cast<size_t>(earlier)]] >= earlier;
}

}  // namespace plimsoll
