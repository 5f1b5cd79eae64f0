// Batch normalisation (Ioffe and Szegedy 2015). In training with the statistics of this
// micro-batch, which are also a contribution to the running ones (operand 3, [mean; variance]),
// once a step and never in recompute; in inference with the running statistics.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class BatchNorm final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "batch_norm"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 4, "batch_norm takes x, weight, bias and running statistics");
    const TensorType& x = c.inputs[0];
    c.require(x.shape.size() == 4,
              fmt::format("x must be [N, C, H, W], not {}", shape_text(x.shape)));
    const int64_t channels = x.shape[1];
    c.require(c.inputs[1].shape == Shape{channels} && c.inputs[2].shape == Shape{channels} &&
                  c.inputs[3].shape == Shape{2, channels},
              fmt::format("weight and bias must be [{0}], running statistics [2, {0}]", channels));
    if (!c.training) return {{"", x}};
    c.require(x.elements() / channels > 1,
              "the statistics of one value a channel are undefined: use a larger micro-batch or "
              "larger images");
    const TensorType row{{channels}, c.statistic_type};
    return {{"", x}, {"mean", row, Role::kStatistic}, {"rstd", row, Role::kStatistic}};
  }

  void forward(EmitContext& c) const override {
    if (!c.graph().training()) {
      c.call("batch_norm.inference")
          .read(c.input(0))
          .read(c.input(1))
          .read(c.input(2))
          .read(c.input(3))
          .write(c.output(0))
          .flops(2.0 * count_of(c.output_type(0)))
          .emit();
      return;
    }
    c.call("batch_norm")
        .read(c.input(0))
        .read(c.input(1))
        .read(c.input(2))
        .write(c.output(0))
        .write(c.output(1))
        .write(c.output(2))
        .flops(8.0 * count_of(c.output_type(0)))
        .emit();
    const TensorType& x = c.input_type(0);
    c.call("batch_norm.statistics")
        .read(c.output(1))
        .read(c.output(2))
        .write_state_gradient(3, c.input_type(3))
        .attribute("count", x.elements() / x.shape[1])
        .flops(4.0 * static_cast<double>(x.shape[1]))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    c.call("batch_norm.backward")
        .read(c.gradient(0))
        .read(c.input(0))
        .read(c.input(1))
        .read(c.output(1))
        .read(c.output(2))
        .write_gradient(0, true)
        .write_gradient(1, true)
        .write_gradient(2, true)
        .flops(14.0 * count_of(c.output_type(0)))
        .emit();
  }
};

}  // namespace

std::unique_ptr<OpRule> make_batch_norm() { return std::make_unique<BatchNorm>(); }

}  // namespace plimsoll
