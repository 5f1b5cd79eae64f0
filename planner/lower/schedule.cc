// Pipeline schedules in folded form: which forward and backward passes a stage interleaves.
#include "planner/lower/passes.h"
#include "planner/schedule_fold.h"

#include <algorithm>
#include <map>
#include <set>

namespace plimsoll::lowering {

namespace {

SlotKind slot_of(const DraftCall& call, bool split) {
  if (call.pass == Pass::kInput || call.pass == Pass::kForward) return SlotKind::kForward;
  if (!split) return SlotKind::kBackward;
  return call.weight_part ? SlotKind::kBackwardWeight : SlotKind::kBackwardInput;
}

// The calls of a micro-batch by what a schedule moves as one.
using Slots = std::map<std::pair<SlotKind, int>, std::vector<DraftCall>>;

Slots slots_of(std::vector<DraftCall> body, bool split) {
  Slots slots;
  for (DraftCall& call : body) slots[{slot_of(call, split), call.chunk}].push_back(std::move(call));
  return slots;
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

// What a chunk keeps from one slot of a micro-batch to a later one, in so many copies: with one
// number for all of it the fewest iterations return to the same copies.
void copy_kept(Draft& draft, const Slots& slots, int chunk, const std::vector<DraftCall>& begin,
               int64_t copies) {
  const std::set<TensorId> sums = touched(draft, begin);
  std::set<TensorId> earlier;
  for (const auto& [slot, calls] : slots) {
    if (slot.second != chunk) continue;
    for (const TensorId id : touched(draft, calls)) {
      if (earlier.insert(id).second || sums.count(id) != 0 || draft.at(id).persistent) continue;
      draft.at(id).copies = std::max(draft.at(id).copies, copies);
    }
  }
}

// A copy for each micro-batch in flight. In rounds of p micro-batches a multiple or a divisor of p
// returns to the same copy soonest; a copy takes room only while it holds a value.
int64_t copies_of_window(const Strategy& strategy, int64_t window) {
  if (strategy.interleave == 1) return window;
  const int64_t p = strategy.pp;
  while (window % p != 0 && p % window != 0) ++window;
  return window;
}

// A message of a chunk is under way while the stage works on the next one.
void copy_sent(Draft& draft, const Slots& slots) {
  for (const auto& [slot, calls] : slots) {
    for (const DraftCall& call : calls) {
      if (call.call.kernel != "send") continue;
      DraftTensor& sent = draft.at(draft.owner(call.call.inputs.front()));
      sent.copies = std::max(sent.copies, copies_of_window(*draft.strategy, 2));
    }
  }
}

// The sends of a slot have so many slots more: their bytes are not held for longer. A stage's
// activations are taken two forwards later by the next one.
constexpr size_t kSlotsOfSends = 3;

void bound_sends(Draft& draft, std::vector<std::vector<DraftCall>>& slots) {
  for (size_t s = 0; s + kSlotsOfSends + 1 < slots.size(); ++s) {
    DraftCall* last_send = nullptr;
    for (DraftCall& call : slots[s]) {
      if (call.call.kernel == "send") last_send = &call;
    }
    if (last_send == nullptr) continue;
    last_send->mark = ++draft.num_marks;
    const auto computes =
        std::find_if(slots[s + kSlotsOfSends + 1].begin(), slots[s + kSlotsOfSends + 1].end(),
                     [](const DraftCall& call) { return call.stream == Stream::kCompute; });
    computes->after.push_back(last_send->mark);
  }
}

DraftSegment make_segment(Draft& draft, const Slots& slots, const ScheduleRun& run) {
  DraftSegment segment{run.name, run.repeat, {}, run.first_microbatch, run.stride};
  std::vector<std::vector<DraftCall>> body;
  for (const ScheduleSlot& slot : run.slots) {
    std::vector<DraftCall> calls = slots.at({slot.kind, slot.chunk});
    for (DraftCall& call : calls) call.microbatch = static_cast<int>(slot.microbatch);
    body.push_back(std::move(calls));
  }
  bound_sends(draft, body);
  for (std::vector<DraftCall>& calls : body) {
    std::move(calls.begin(), calls.end(), std::back_inserter(segment.body));
  }
  return segment;
}

// Puts the runs in place of the repeated segment.
void schedule_phase(Draft& draft, DraftPhase& phase, const Slots& slots,
                    const std::vector<ScheduleRun>& runs) {
  std::vector<DraftSegment> segments;
  for (DraftSegment& segment : phase.segments) {
    if (segment.name != "micro-batches") {
      segments.push_back(std::move(segment));
      continue;
    }
    for (const ScheduleRun& run : runs) segments.push_back(make_segment(draft, slots, run));
  }
  phase.segments = std::move(segments);
}

}  // namespace

void mark_shared(Draft& draft, const std::vector<std::string>& names) {
  for (Trained& trained : draft.trained) {
    const std::string& name = draft.at(trained.parameter).tensor.name;
    trained.in_other_stage = std::find(names.begin(), names.end(), name) != names.end();
    trained.shared = trained.in_other_stage && draft.stage > 0;
  }
}

void add_schedule(Draft& draft) {
  const Strategy& strategy = *draft.strategy;
  if (strategy.pp == 1) return;
  const ScheduleKind kind = *parse_schedule_kind(strategy.schedule);
  for (DraftPhase& phase : draft.phases) {
    DraftSegment* body = find_segment(phase, "micro-batches");
    if (body == nullptr) continue;
    const int64_t count = body->repeat;
    const Slots slots = slots_of(std::move(body->body), splits_backward(kind));
    if (strategy.interleave > 1) copy_sent(draft, slots);
    if (phase.name == "evaluate") {
      schedule_phase(draft, phase, slots, {fold_forwards(strategy.pp, count, strategy.interleave)});
      continue;
    }
    const std::vector<ScheduleRun> runs =
        fold_schedule(kind, draft.stage, strategy.pp, count, strategy.interleave);
    const std::vector<DraftCall>& begin = find_segment(phase, "begin")->body;
    for (int chunk = 0; chunk < strategy.interleave; ++chunk) {
      copy_kept(draft, slots, chunk, begin,
                copies_of_window(strategy, window_in_flight(runs, chunk)));
    }
    schedule_phase(draft, phase, slots, runs);
  }
}

}  // namespace plimsoll::lowering
