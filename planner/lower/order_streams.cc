// Waits between streams.
#include "base/error.h"
#include "planner/lower/passes.h"

#include <algorithm>
#include <array>
#include <map>

namespace plimsoll::lowering {

namespace {

// Streams, and the sends apart from what else is on the pipeline's: who waits for a receive has not
// waited for the sends before it.
constexpr size_t kNumLanes = kNumStreams + 1;

size_t lane_of(const DraftCall& call) {
  return call.call.kernel == "send" ? kNumStreams : static_cast<size_t>(call.stream);
}

// The last uses of a buffer in the body so far, by lane; -1 for none.
struct Uses {
  std::array<int, kNumLanes> reads;
  std::array<int, kNumLanes> writes;
  Uses() {
    reads.fill(-1);
    writes.fill(-1);
  }
};

class Ordering {
 public:
  Ordering(const Draft& draft, std::vector<DraftCall>& body) : draft_(draft), body_(body) {
    for (auto& others : waited_) others.fill(-1);
  }

  void run() {
    for (size_t i = 0; i < body_.size(); ++i) {
      DraftCall& call = body_[i];
      needed_.fill(-1);
      for (const TensorId id : call.call.inputs) need_buffer(call, id, false);
      for (const TensorId id : call.call.outputs) need_buffer(call, id, true);
      for (const int mark : call.after) {
        // A mark of another segment is done before this one starts.
        if (const auto at = marks_.find(mark); at != marks_.end()) need(at->second);
      }
      // What is issued here starts no earlier, so that it cannot hold bytes that are freed before.
      if (call.stream != Stream::kCompute && last_computed_ >= 0) need(last_computed_);
      const size_t lane = lane_of(call);
      needed_[lane] = -1;  // a stream keeps its own order
      if (call.stream == Stream::kPipeline) {
        needed_[kNumStreams] = needed_[static_cast<size_t>(Stream::kPipeline)] = -1;
      }
      call.waits.clear();
      for (size_t other = 0; other < kNumLanes; ++other) {
        if (needed_[other] <= waited_[lane][other]) continue;
        waited_[lane][other] = needed_[other];
        call.waits.push_back(needed_[other]);
      }
      record(call, static_cast<int>(i));
    }
  }

 private:
  void need(int index) {
    int& latest = needed_[lane_of(body_[static_cast<size_t>(index)])];
    latest = std::max(latest, index);
  }

  // A buffer and which of its copies a call of this body touches: the iteration shifts all alike.
  using Copy = std::pair<TensorId, int64_t>;
  [[nodiscard]] Copy copy_of(const DraftCall& call, TensorId id) const {
    const TensorId owner = draft_.owner(id);
    return {owner, call.microbatch % draft_.at(owner).copies};
  }

  void need_buffer(const DraftCall& call, TensorId id, bool writes) {
    if (id == kNoTensor) return;
    const auto at = uses_.find(copy_of(call, id));
    if (at == uses_.end()) return;
    for (const int use : at->second.writes) {
      if (use >= 0) need(use);
    }
    if (!writes) return;
    for (const int use : at->second.reads) {
      if (use >= 0) need(use);
    }
  }

  void record(const DraftCall& call, int index) {
    const size_t lane = lane_of(call);
    for (const TensorId id : call.call.inputs) {
      if (id != kNoTensor) uses_[copy_of(call, id)].reads[lane] = index;
    }
    for (const TensorId id : call.call.outputs) {
      if (id != kNoTensor) uses_[copy_of(call, id)].writes[lane] = index;
    }
    if (call.mark != 0) marks_[call.mark] = index;
    if (call.stream == Stream::kCompute) last_computed_ = index;
  }

  const Draft& draft_;
  std::vector<DraftCall>& body_;
  std::map<Copy, Uses> uses_;
  std::map<int, int> marks_;
  std::array<int, kNumLanes> needed_{};  // latest call on each lane that the call waits for
  // The latest call on each lane that each lane has waited for.
  std::array<std::array<int, kNumLanes>, kNumLanes> waited_{};
  int last_computed_ = -1;
};

}  // namespace

void order_streams(Draft& draft) {
  for (DraftPhase& phase : draft.phases) {
    for (DraftSegment& segment : phase.segments) Ordering(draft, segment.body).run();
  }
}

}  // namespace plimsoll::lowering
