// From a draft to a StepProgram: one buffer for each set of tensors that share one.
#include "planner/lower/passes.h"

#include <set>

namespace plimsoll::lowering {

namespace {

class Writer {
 public:
  explicit Writer(const Draft& draft) : draft_(draft), buffers_(draft.tensors.size(), kNoBuffer) {}

  StepProgram run() {
    // Persistent buffers come first, in the order in which they were declared.
    for (size_t i = 0; i < draft_.tensors.size(); ++i) {
      if (draft_.tensors[i].persistent) (void)buffer(static_cast<TensorId>(i));
    }
    for (const DraftPhase& phase : draft_.phases) {
      Phase made{phase.name, {}};
      for (const DraftSegment& segment : phase.segments) made.segments.push_back(write(segment));
      program_.phases.push_back(std::move(made));
    }
    return std::move(program_);
  }

 private:
  Segment write(const DraftSegment& segment) {
    Segment made;
    made.name = segment.name;
    made.repeat = segment.repeat;
    made.first_microbatch = segment.first_microbatch;
    made.microbatch_stride = segment.microbatch_stride;
    for (const DraftCall& call : segment.body) made.body.push_back(write(call));
    return made;
  }

  Instruction write(const DraftCall& call) {
    Instruction made;
    made.op = call.call.kernel;
    for (const TensorId id : call.call.inputs) {
      made.inputs.push_back(buffer(id));
      add_view(made, made.inputs.size() - 1, id);
    }
    for (size_t k = 0; k < call.call.outputs.size(); ++k) {
      made.outputs.push_back(buffer(call.call.outputs[k]));
      add_view(made, made.inputs.size() + k, call.call.outputs[k]);
      if (call.call.accumulated[k] != kNoTensor) made.accumulate |= 1U << k;
    }
    made.attributes = call.call.attributes;
    made.stream = call.stream;
    made.waits = call.waits;
    made.pass = call.pass;
    made.layer = call.call.layer;
    made.microbatch = call.microbatch;
    made.flops = call.call.flops;
    made.bytes_moved = call.call.bytes_moved;
    return made;
  }

  void add_view(Instruction& made, size_t operand, TensorId id) {
    if (id == kNoTensor) return;
    const Shape& shape = draft_.at(id).tensor.type.shape;
    if (shape == draft_.at(draft_.owner(id)).tensor.type.shape) return;
    made.views.push_back({static_cast<int>(operand), shape});
  }

  int buffer(TensorId id) {
    if (id == kNoTensor) return kNoBuffer;
    const TensorId owner = draft_.owner(id);
    int& at = buffers_[static_cast<size_t>(owner)];
    if (at != kNoBuffer) return at;
    const DraftTensor& tensor = draft_.at(owner);
    Buffer made;
    made.name = unique(tensor.tensor.name);
    made.category = tensor.category;
    made.dtype = tensor.tensor.type.dtype;
    made.shape = tensor.tensor.type.shape;
    made.copies = static_cast<int>(tensor.copies);
    made.persistent = tensor.persistent;
    made.layer = tensor.tensor.layer;
    made.op = tensor.tensor.op;
    made.logical = tensor.logical;
    program_.buffers.push_back(std::move(made));
    at = static_cast<int>(program_.buffers.size()) - 1;
    return at;
  }

  std::string unique(const std::string& name) {
    std::string candidate = name;
    for (int i = 2; !names_.insert(candidate).second; ++i)
      candidate = fmt::format("{}#{}", name, i);
    return candidate;
  }

  const Draft& draft_;
  StepProgram program_;
  std::vector<int> buffers_;
  std::set<std::string> names_;
};

}  // namespace

StepProgram to_program(const Draft& draft) { return Writer(draft).run(); }

}  // namespace plimsoll::lowering
