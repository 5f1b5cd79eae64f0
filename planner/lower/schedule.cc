// Pipeline schedules in folded form: which forward and backward passes a stage interleaves.
#include "base/error.h"
#include "planner/lower/passes.h"

#include <algorithm>
#include <set>

namespace plimsoll::lowering {

namespace {

bool is_forward(const DraftCall& call) {
  return call.pass == Pass::kInput || call.pass == Pass::kForward;
}

// Buffers that the calls touch, by owner.
std::set<TensorId> touched(const Draft& draft, const std::vector<DraftCall>& calls) {
  std::set<TensorId> owners;
  for (const DraftCall& call : calls) {
    for (const auto* list : {&call.call.inputs, &call.call.outputs, &call.call.accumulated}) {
      for (const TensorId id : *list) {
        if (id != kNoTensor) owners.insert(draft.owner(id));
      }
    }
  }
  return owners;
}

// What is kept from a micro-batch's forward to its backward, in so many copies.
void copy_kept(Draft& draft, const std::vector<DraftCall>& forward,
               const std::vector<DraftCall>& backward, const std::vector<DraftCall>& begin,
               int64_t copies) {
  const std::set<TensorId> in_forward = touched(draft, forward);
  const std::set<TensorId> sums = touched(draft, begin);
  for (const TensorId id : touched(draft, backward)) {
    if (in_forward.count(id) == 0 || sums.count(id) != 0 || draft.at(id).persistent) continue;
    draft.at(id).copies = copies;
  }
}

std::vector<DraftCall> shifted(std::vector<DraftCall> calls, int64_t microbatches) {
  for (DraftCall& call : calls) call.microbatch = static_cast<int>(microbatches);
  return calls;
}

std::vector<DraftCall> joined(std::vector<DraftCall> first, std::vector<DraftCall> second) {
  first.insert(first.end(), std::make_move_iterator(second.begin()),
               std::make_move_iterator(second.end()));
  return first;
}

}  // namespace

void mark_shared(Draft& draft, const std::vector<std::string>& names) {
  for (Trained& trained : draft.trained) {
    const std::string& name = draft.at(trained.parameter).tensor.name;
    trained.in_other_stage = std::find(names.begin(), names.end(), name) != names.end();
    trained.shared = trained.in_other_stage && draft.stage > 0;
  }
}

void add_schedule(Draft& draft, const std::string& phase) {
  if (draft.strategy->pp == 1) return;
  std::vector<DraftSegment>& segments = draft.phase(phase).segments;
  const auto body = std::find_if(segments.begin(), segments.end(),
                                 [](const DraftSegment& s) { return s.name == "micro-batches"; });
  std::vector<DraftCall> forward;
  std::vector<DraftCall> backward;
  for (DraftCall& call : body->body) {
    (is_forward(call) ? forward : backward).push_back(std::move(call));
  }
  const int64_t count = draft.num_microbatches();
  // Micro-batches whose forward runs ahead of the first backward: all of them (GPipe, Huang et al.
  // 2019), or as many as there are stages behind this one (1F1B, Narayanan et al. 2019).
  const int64_t behind = draft.strategy->pp - 1 - draft.stage;
  const int64_t ahead = draft.strategy->schedule == "gpipe" ? count : std::min(behind, count);
  copy_kept(draft, forward, backward, find_segment(draft.phase(phase), "begin")->body,
            std::min(ahead + 1, count));
  std::vector<DraftSegment> schedule;
  if (ahead > 0) schedule.push_back({"warm-up", ahead, forward});
  if (count > ahead) {
    schedule.push_back({"steady", count - ahead, joined(shifted(forward, ahead), backward)});
  }
  if (ahead > 0) schedule.push_back({"cool-down", ahead, std::move(backward), count - ahead});
  const auto at = segments.erase(body);
  segments.insert(at, std::make_move_iterator(schedule.begin()),
                  std::make_move_iterator(schedule.end()));
}

}  // namespace plimsoll::lowering
