// y = (x - mean) * rstd * w + b over the last dimension; saves mean and rstd of each row.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class LayerNorm final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "layer_norm"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 3, "layer_norm takes x, weight and bias");
    const TensorType& x = c.inputs[0];
    c.require(!x.shape.empty() && c.inputs[1].shape == Shape{x.last()} &&
                  c.inputs[2].shape == Shape{x.last()},
              fmt::format("weight and bias must be [{}]", x.shape.empty() ? 0 : x.last()));
    const TensorType row{{x.rows()}, c.statistic_type};
    return {{"", x}, {"mean", row, Role::kStatistic}, {"rstd", row, Role::kStatistic}};
  }

  void forward(EmitContext& c) const override {
    c.call("layer_norm")
        .read(c.input(0))
        .read(c.input(1))
        .read(c.input(2))
        .write(c.output(0))
        .write(c.output(1))
        .write(c.output(2))
        .flops(8.0 * static_cast<double>(c.output_type(0).elements()))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    c.call("layer_norm.backward")
        .read(c.gradient(0))
        .read(c.input(0))
        .read(c.input(1))
        .read(c.output(1))
        .read(c.output(2))
        .write_gradient(0, true)
        .write_gradient(1, true)
        .write_gradient(2, true)
        .flops(14.0 * static_cast<double>(c.output_type(0).elements()))
        .emit();
  }

  [[nodiscard]] std::vector<Sharding> shardings(const ShardingContext& c) const override {
    return row_shardings(c);
  }
};

}  // namespace

std::unique_ptr<OpRule> make_layer_norm() { return std::make_unique<LayerNorm>(); }

}  // namespace plimsoll
