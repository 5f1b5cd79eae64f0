// y = max(x, 0); backward reads y, so that forward may run in place.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class Relu final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "relu"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 1, "relu takes one tensor");
    return {{"", c.inputs[0]}};
  }

  void forward(EmitContext& c) const override {
    c.call("relu")
        .read(c.input(0))
        .write(c.output(0))
        .in_place(0, 0)
        .flops(count_of(c.output_type(0)))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    c.call("relu.backward")
        .read(c.gradient(0))
        .read(c.output(0))
        .write_gradient(0, false)
        .in_place(0, 0)
        .flops(count_of(c.output_type(0)))
        .emit();
  }

  [[nodiscard]] std::vector<Sharding> shardings(const ShardingContext& c) const override {
    return elementwise_shardings(c);
  }
};

}  // namespace

std::unique_ptr<OpRule> make_relu() { return std::make_unique<Relu>(); }

}  // namespace plimsoll
