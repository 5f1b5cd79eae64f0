// What the lowering passes work on: kernel calls in their segments over one table of tensors.
//
// A pass takes a draft and leaves a draft; `to_program` turns any of them into a StepProgram that
// can be printed. Tensors are single-assignment within a segment body; tensors that share a buffer
// (views, accumulation, in-place results) are joined by `share`.
#pragma once

#include "models/autodiff.h"
#include "planner/job.h"
#include "planner/strategy.h"
#include "program/program.h"

#include <string>
#include <vector>

namespace plimsoll::lowering {

struct DraftCall {
  KernelCall call;
  Pass pass = Pass::kForward;
  Stream stream = Stream::kCompute;
  int microbatch = 0;        // relative to the iteration's
  int chunk = 0;             // of the stage's, in an interleaved schedule
  bool weight_part = false;  // of a backward that is split in two
  // Order that no operand shows: the call runs after those of these marks, on other streams.
  int mark = 0;  // 0: nothing waits for it by name
  std::vector<int> after{};
  std::vector<int> waits{};  // indices into the body; set by order_streams, the last pass
};

struct DraftSegment {
  std::string name;
  int64_t repeat = 1;
  std::vector<DraftCall> body;
  int64_t first_microbatch = 0;
  int64_t microbatch_stride = 1;
};

struct DraftPhase {
  std::string name;
  std::vector<DraftSegment> segments;
};

struct DraftTensor {
  Tensor tensor;
  TensorId shares = kNoTensor;  // next tensor towards the one that owns the buffer
  Category category = Category::kActivations;
  bool persistent = false;
  std::optional<LogicalTensor> logical;
  int64_t copies = 1;  // micro-batches whose value is alive at once
};

// A parameter (or state) with what training keeps for it.
struct Trained {
  TensorId parameter = kNoTensor;
  std::vector<TensorId>
      gradients;                  // one a use, in order of use; the first holds the sum at the end
  std::vector<TensorId> moments;  // optimizer state
  TensorId master = kNoTensor;
  bool is_state = false;
  bool shared = false;          // the first stage has it too and counts it in the gradient norm
  bool in_other_stage = false;  // gradients are summed over the stages that have it
};

struct Draft {
  const ModelSpec* model = nullptr;
  const Job* job = nullptr;
  const Strategy* strategy = nullptr;
  int stage = 0;  // of strategy->pp; holds strategy->interleave chunks of the model

  std::vector<DraftTensor> tensors;
  std::vector<DraftPhase> phases;
  std::vector<Trained> trained;  // in the model's order
  TensorId scalars = kNoTensor;
  TensorId loss = kNoTensor;
  TensorId correct = kNoTensor;     // classifiers with an evaluation
  TensorId small_norm = kNoTensor;  // kNoTensor until a pass measures the noise
  int num_marks = 0;                // of calls, see DraftCall

  [[nodiscard]] DraftTensor& at(TensorId id) { return tensors[static_cast<size_t>(id)]; }
  [[nodiscard]] const DraftTensor& at(TensorId id) const {
    return tensors[static_cast<size_t>(id)];
  }
  TensorId add(Tensor tensor, Category category);
  // The tensor whose buffer `id` lives in.
  [[nodiscard]] TensorId owner(TensorId id) const;
  void share(TensorId tensor, TensorId with);

  [[nodiscard]] DraftPhase& phase(const std::string& name);
  [[nodiscard]] int64_t num_microbatches() const { return accumulation_steps(*strategy, *job); }
};

// A segment of a phase by name; null when there is none.
[[nodiscard]] DraftSegment* find_segment(DraftPhase& phase, const std::string& name);

// The calls `op` with operands, for passes that add instructions of their own.
[[nodiscard]] DraftCall make_call(const Draft& draft, std::string op, std::vector<TensorId> inputs,
                                  std::vector<TensorId> outputs, Pass pass);
// Marks output k as added to in place.
void accumulate_onto(DraftCall& call, size_t output, TensorId tensor);

// A call that sets all elements of a tensor to zero.
[[nodiscard]] DraftCall fill_zero(const Draft& draft, TensorId tensor, Pass pass);
// The call of a body that writes `tensor`; null when there is none.
[[nodiscard]] DraftCall* find_writer(DraftSegment& segment, TensorId tensor);
// Makes the call, which writes `tensor`, add to `onto`.
void accumulate_output(Draft& draft, DraftCall& call, TensorId tensor, TensorId onto);
// A buffer of a step's own; layer and op are those of `like`.
[[nodiscard]] TensorId add_transient(Draft& draft, const std::string& name, TensorType type,
                                     Category category, TensorId like = kNoTensor);

// Sums a tensor over the ranks of a group ("dp", "data", "ep", "pp", "embedding", …), in place.
[[nodiscard]] DraftCall all_reduce(const Draft& draft, TensorId tensor,
                                   const std::string& group = "dp");

}  // namespace plimsoll::lowering
