// One room an op: what planning needs to know about it.
//
// A rule states the types of the outputs, the kernel calls of forward and backward with their
// operands (docs/ops.md), FLOPs and bytes. Which tensors backward reads is what gets saved: nobody
// types a formula for activation memory.
#pragma once

#include "models/graph.h"
#include "models/layout.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// Output `output` may take over the buffer of input `input` when nobody reads that input later.
struct InPlace {
  int output = 0;
  int input = 0;
};

// One call of a kernel: the step from an op to instructions. Tensors are single-assignment; an
// output that is added to names the tensor whose buffer it continues in `accumulated`.
struct KernelCall {
  std::string kernel;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  std::vector<TensorId> accumulated;  // parallel to outputs, kNoTensor where overwritten
  std::vector<InPlace> in_place;
  Attributes attributes;
  int layer = -1;
  double flops = 0;
  double bytes_moved = 0;
  bool side_effect = false;  // never repeated by recompute (running statistics)
  // Of backward: nothing comes of it but gradients of parameters, so it can be put off.
  bool weight_part = false;
};

struct OutputSpec {
  std::string suffix;  // "" for the main output, "mean", "lse", … for the others
  TensorType type;
  Role role = Role::kActivation;
  bool view = false;  // shares the bytes of input 0
};

struct InferContext {
  const Attributes& attributes;
  std::span<const TensorType> inputs;  // a default TensorType (empty shape) for an absent operand
  const SaveRules& save_rules;
  DType float_type;
  DType statistic_type;
  bool training;
  std::string_view op_name;  // for errors

  // Throws Error (exit 2) "op_name: message" when `condition` is false.
  void require(bool condition, const std::string& message) const;
};

// Collects the calls of one op. Reads and writes are added in the operand order of docs/ops.md.
class CallBuilder;

class EmitContext {
 public:
  virtual ~EmitContext() = default;
  EmitContext(const EmitContext&) = delete;
  EmitContext& operator=(const EmitContext&) = delete;

  [[nodiscard]] virtual const OpNode& op() const = 0;
  [[nodiscard]] virtual const Graph& graph() const = 0;
  [[nodiscard]] TensorId input(size_t i) const {
    return i < op().inputs.size() ? op().inputs[i] : kNoTensor;
  }
  [[nodiscard]] TensorId output(size_t i) const { return op().outputs[i]; }
  [[nodiscard]] const TensorType& input_type(size_t i) const { return graph().type(input(i)); }
  [[nodiscard]] const TensorType& output_type(size_t i) const { return graph().type(output(i)); }
  [[nodiscard]] bool has_input(size_t i) const { return input(i) != kNoTensor; }

  // A new call of `kernel` with the op's attributes; add operands, then `emit()`.
  [[nodiscard]] CallBuilder call(std::string kernel);

  // For CallBuilder.
  virtual TensorId make_workspace(TensorType type) = 0;
  virtual TensorId make_state_gradient(size_t input_index, TensorType type) = 0;
  virtual void emit(KernelCall call) = 0;
  virtual const TensorType& type_of(TensorId id) const = 0;

 protected:
  EmitContext() = default;
};

// Backward of one op: gradients of its outputs are there, gradients of its inputs are asked for.
class BackwardContext : public EmitContext {
 public:
  // Gradient of output i (kNoTensor when nothing depends on it).
  [[nodiscard]] virtual TensorId gradient(size_t output_index) const = 0;
  // Whether input i is present and leads to a parameter.
  [[nodiscard]] virtual bool needs_gradient(size_t input_index) const = 0;
  // The gradient of input i is the gradient of output 0 itself (same number of elements).
  virtual void pass_gradient(size_t input_index) = 0;
  // The learning-rate-free per-step numbers (f64 [16]), read by loss gradients.
  [[nodiscard]] virtual TensorId scalars() = 0;

  // For CallBuilder: a new gradient tensor for input i, and the tensor it adds to when the kernel
  // `can_accumulate` and an earlier gradient of the same tensor exists.
  struct GradientTarget {
    TensorId tensor = kNoTensor;
    TensorId accumulated = kNoTensor;
  };
  virtual GradientTarget make_gradient(size_t input_index, bool can_accumulate) = 0;
};

class CallBuilder {
 public:
  CallBuilder(EmitContext& context, std::string kernel);

  CallBuilder& read(TensorId tensor);  // kNoTensor: absent operand
  CallBuilder& write(TensorId tensor);
  // Writes the gradient of input i; an operand that is absent where it needs none.
  CallBuilder& write_gradient(size_t input_index, bool can_accumulate);
  // The last output continues in the buffer of `tensor`, which ends here.
  CallBuilder& continuing(TensorId tensor);
  // Scratch, always last.
  CallBuilder& workspace(TensorType type);
  // Adds this micro-batch's contribution to a state of the model (input i): runs once a
  // micro-batch, never in recompute.
  CallBuilder& write_state_gradient(size_t input_index, TensorType type);
  CallBuilder& in_place(int output, int input);
  CallBuilder& attribute(const std::string& name, AttributeValue value);
  CallBuilder& no_attributes();
  // The matrix product of a backward that makes the weight's gradient, see KernelCall.
  CallBuilder& weight_part();
  CallBuilder& flops(double value);
  // Operands' bytes are counted by default (each once); ops that read less or more say so.
  CallBuilder& bytes_moved(double value);
  void emit();

 private:
  EmitContext& context_;
  KernelCall call_;
  bool bytes_given_ = false;
};

class OpRule {
 public:
  virtual ~OpRule() = default;
  [[nodiscard]] virtual std::string_view kind() const = 0;
  [[nodiscard]] virtual std::vector<OutputSpec> infer(const InferContext& context) const = 0;
  // Default: one call named `kind` that reads all inputs and writes all outputs, 0 FLOPs.
  virtual void forward(EmitContext& context) const;
  virtual void backward(BackwardContext& context) const = 0;
  // The legal ways to divide the op over tensor-parallel ranks, the preferred ones first. Default:
  // every rank does all of it.
  [[nodiscard]] virtual std::vector<Sharding> shardings(const ShardingContext& context) const;
  // Outputs are not kept for backward: a call that reads one is preceded by this op's forward once
  // more, which must need no type but those of its call's operands.
  [[nodiscard]] virtual bool made_again() const { return false; }
};

// The rule of a kind; throws Error (exit 2) for an unknown one.
[[nodiscard]] const OpRule& find_op_rule(std::string_view kind);
// All kinds, sorted.
[[nodiscard]] std::vector<std::string_view> op_kinds();

}  // namespace plimsoll
