#include "planner/lower/draft.h"

#include "base/error.h"

#include <algorithm>

namespace plimsoll::lowering {

TensorId Draft::add(Tensor tensor, Category category) {
  tensors.push_back({.tensor = std::move(tensor),
                     .shares = kNoTensor,
                     .category = category,
                     .persistent = false,
                     .logical = {}});
  return static_cast<TensorId>(tensors.size() - 1);
}

TensorId Draft::owner(TensorId id) const {
  while (at(id).shares != kNoTensor) id = at(id).shares;
  return id;
}

void Draft::share(TensorId tensor, TensorId with) {
  const TensorId from = owner(tensor);
  const TensorId to = owner(with);
  if (from != to) at(from).shares = to;
}

DraftPhase& Draft::phase(const std::string& name) {
  for (DraftPhase& phase : phases) {
    if (phase.name == name) return phase;
  }
  phases.push_back({name, {}});
  return phases.back();
}

DraftSegment* find_segment(DraftPhase& phase, const std::string& name) {
  for (DraftSegment& segment : phase.segments) {
    if (segment.name == name) return &segment;
  }
  return nullptr;
}

DraftCall make_call(const Draft& draft, std::string op, std::vector<TensorId> inputs,
                    std::vector<TensorId> outputs, Pass pass) {
  DraftCall made;
  made.pass = pass;
  made.call.kernel = std::move(op);
  made.call.inputs = std::move(inputs);
  made.call.outputs = std::move(outputs);
  made.call.accumulated.assign(made.call.outputs.size(), kNoTensor);
  for (const auto* list : {&made.call.inputs, &made.call.outputs}) {
    for (const TensorId id : *list) {
      if (id == kNoTensor) continue;
      made.call.bytes_moved += static_cast<double>(draft.at(id).tensor.type.bytes());
      made.call.layer = draft.at(id).tensor.layer;
    }
  }
  return made;
}

void accumulate_onto(DraftCall& call, size_t output, TensorId tensor) {
  call.call.accumulated[output] = tensor;
}

DraftCall* find_writer(DraftSegment& segment, TensorId tensor) {
  for (DraftCall& call : segment.body) {
    const auto& outputs = call.call.outputs;
    if (std::find(outputs.begin(), outputs.end(), tensor) != outputs.end()) return &call;
  }
  return nullptr;
}

void accumulate_output(Draft& draft, DraftCall& call, TensorId tensor, TensorId onto) {
  const auto& outputs = call.call.outputs;
  const auto at = std::find(outputs.begin(), outputs.end(), tensor) - outputs.begin();
  accumulate_onto(call, static_cast<size_t>(at), onto);
  draft.share(tensor, onto);
}

TensorId add_transient(Draft& draft, const std::string& name, TensorType type, Category category,
                       TensorId like) {
  Tensor tensor{.name = name,
                .type = std::move(type),
                .role = Role::kWorkspace,
                .layer = -1,
                .op = "step",
                .input_field = "",
                .view_of = kNoTensor,
                .parameter = {}};
  if (like != kNoTensor) {
    tensor.layer = draft.at(like).tensor.layer;
    tensor.op = draft.at(like).tensor.op;
  }
  return draft.add(std::move(tensor), category);
}

DraftCall fill_zero(const Draft& draft, TensorId tensor, Pass pass) {
  DraftCall fill = make_call(draft, "fill", {}, {tensor}, pass);
  fill.call.attributes.set("value", 0.0);
  return fill;
}

DraftCall all_reduce(const Draft& draft, TensorId tensor, const std::string& group) {
  DraftCall reduce = make_call(draft, "all_reduce", {}, {tensor}, Pass::kReduce);
  accumulate_onto(reduce, 0, tensor);
  const bool within_replica = group == "tp" || group == "ep";
  const bool over_stages = group == "pp" || group == "embedding";
  reduce.stream = within_replica ? Stream::kTensorParallel
                  : over_stages  ? Stream::kPipeline
                                 : Stream::kDataParallel;
  reduce.call.attributes.set("group", group);
  return reduce;
}

}  // namespace plimsoll::lowering
