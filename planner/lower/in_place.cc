// In-place results: an operand's buffer is handed on when nobody reads it again.
#include "planner/lower/passes.h"

#include <algorithm>

namespace plimsoll::lowering {

namespace {

// Position of the last call of a body that touches each buffer (by owner tensor).
std::vector<int64_t> last_touches(const Draft& draft, const DraftSegment& segment) {
  std::vector<int64_t> last(draft.tensors.size(), -1);
  for (size_t i = 0; i < segment.body.size(); ++i) {
    const KernelCall& call = segment.body[i].call;
    for (const auto* list : {&call.inputs, &call.outputs, &call.accumulated}) {
      for (const TensorId id : *list) {
        if (id != kNoTensor) {
          last[static_cast<size_t>(draft.owner(id))] = static_cast<int64_t>(i);
        }
      }
    }
  }
  return last;
}

bool may_hand_on(const Draft& draft, TensorId owner) {
  const DraftTensor& tensor = draft.at(owner);
  return !tensor.persistent &&
         (tensor.tensor.role == Role::kActivation || tensor.tensor.role == Role::kGradient);
}

}  // namespace

void share_in_place(Draft& draft) {
  for (DraftPhase& phase : draft.phases) {
    for (DraftSegment& segment : phase.segments) {
      std::vector<int64_t> last = last_touches(draft, segment);
      for (size_t i = 0; i < segment.body.size(); ++i) {
        KernelCall& call = segment.body[i].call;
        for (const InPlace& pair : call.in_place) {
          const TensorId from = call.inputs[static_cast<size_t>(pair.input)];
          const TensorId to = call.outputs[static_cast<size_t>(pair.output)];
          if (from == kNoTensor || to == kNoTensor) continue;
          if (call.accumulated[static_cast<size_t>(pair.output)] != kNoTensor) continue;
          const TensorId owner = draft.owner(from);
          const bool twice =
              std::count_if(call.inputs.begin(), call.inputs.end(), [&](TensorId id) {
                return id != kNoTensor && draft.owner(id) == owner;
              }) > 1;
          if (twice || draft.owner(to) != to || !may_hand_on(draft, owner) ||
              last[static_cast<size_t>(owner)] != static_cast<int64_t>(i) ||
              draft.at(owner).tensor.type.bytes() != draft.at(to).tensor.type.bytes()) {
            continue;
          }
          draft.share(to, owner);
          last[static_cast<size_t>(owner)] = last[static_cast<size_t>(to)];
          break;
        }
      }
    }
  }
}

}  // namespace plimsoll::lowering
