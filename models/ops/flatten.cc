// [N, …] seen as [N, product of the rest]: a view, so no call and no bytes.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class Flatten final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "flatten"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 1 && !c.inputs[0].shape.empty() && c.inputs[0].elements() > 0,
              "flatten takes one tensor");
    const TensorType& x = c.inputs[0];
    return {{"", {{x.shape[0], x.elements() / x.shape[0]}, x.dtype}, Role::kActivation, true}};
  }

  void forward(EmitContext& c) const override {
    // A view of input 0: nothing to run.
    static_cast<void>(c);
  }

  void backward(BackwardContext& c) const override { c.pass_gradient(0); }
};

}  // namespace

std::unique_ptr<OpRule> make_flatten() { return std::make_unique<Flatten>(); }

}  // namespace plimsoll
