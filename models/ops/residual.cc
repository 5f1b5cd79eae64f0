// y = a + b; both gradients are dy itself.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class Residual final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "residual"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 2 && c.inputs[0] == c.inputs[1],
              "residual takes two tensors of one shape");
    return {{"", c.inputs[0]}};
  }

  void forward(EmitContext& c) const override {
    c.call("residual")
        .read(c.input(0))
        .read(c.input(1))
        .write(c.output(0))
        .in_place(0, 0)
        .in_place(0, 1)
        .flops(static_cast<double>(c.output_type(0).elements()))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    c.pass_gradient(0);
    c.pass_gradient(1);
  }

  [[nodiscard]] std::vector<Sharding> shardings(const ShardingContext& c) const override {
    return elementwise_shardings(c);
  }
};

}  // namespace

std::unique_ptr<OpRule> make_residual() { return std::make_unique<Residual>(); }

}  // namespace plimsoll
