// y = x * rstd * w over the last dimension (Zhang and Sennrich 2019); saves rstd of each row.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class RmsNorm final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "rms_norm"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 2, "rms_norm takes x and weight");
    const TensorType& x = c.inputs[0];
    c.require(!x.shape.empty() && c.inputs[1].shape == Shape{x.last()},
              fmt::format("weight must be [{}]", x.shape.empty() ? 0 : x.last()));
    return {{"", x}, {"rstd", {{x.rows()}, c.statistic_type}, Role::kStatistic}};
  }

  void forward(EmitContext& c) const override {
    c.call("rms_norm")
        .read(c.input(0))
        .read(c.input(1))
        .write(c.output(0))
        .write(c.output(1))
        .flops(5.0 * count_of(c.output_type(0)))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    c.call("rms_norm.backward")
        .read(c.gradient(0))
        .read(c.input(0))
        .read(c.input(1))
        .read(c.output(1))
        .write_gradient(0, true)
        .write_gradient(1, true)
        .flops(10.0 * count_of(c.output_type(0)))
        .emit();
  }

  [[nodiscard]] std::vector<Sharding> shardings(const ShardingContext& c) const override {
    return row_shardings(c);
  }
};

}  // namespace

std::unique_ptr<OpRule> make_rms_norm() { return std::make_unique<RmsNorm>(); }

}  // namespace plimsoll
