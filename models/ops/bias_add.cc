// y = x + b over the last dimension: the bias of a linear op whose sum over ranks must be whole
// before it. The gradient of x is dy itself.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class BiasAdd final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "bias_add"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 2 && !c.inputs[0].shape.empty() &&
                  c.inputs[1].shape == Shape{c.inputs[0].last()},
              "bias_add takes x and a bias of x's last extent");
    return {{"", c.inputs[0]}};
  }

  void forward(EmitContext& c) const override {
    c.call("bias_add")
        .read(c.input(0))
        .read(c.input(1))
        .write(c.output(0))
        .in_place(0, 0)
        .flops(count_of(c.output_type(0)))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    if (c.needs_gradient(1)) {
      c.call("bias_add.backward")
          .read(c.gradient(0))
          .write_gradient(1, true)
          .flops(count_of(c.output_type(0)))
          .emit();
    }
    c.pass_gradient(0);
  }

  [[nodiscard]] std::vector<Sharding> shardings(const ShardingContext& c) const override {
    return row_shardings(c);
  }
};

}  // namespace

std::unique_ptr<OpRule> make_bias_add() { return std::make_unique<BiasAdd>(); }

}  // namespace plimsoll
