// y[b, t] = sum over the token's k experts of weight * row: the weighted way back of moe_dispatch.
// A dropped choice (position -1) adds nothing. The weights' gradient needs the rows.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class MoeCombine final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "moe_combine"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 3, "moe_combine takes rows, weights and positions");
    const TensorType& rows = c.inputs[0];
    const TensorType& weights = c.inputs[1];
    const TensorType& position = c.inputs[2];
    c.require(
        rows.shape.size() == 2 && weights.shape.size() == 3 &&
            position == TensorType{weights.shape, DType::kI32} && weights.dtype == c.statistic_type,
        fmt::format("rows [N, C], weights and i32 positions [B, T, k], not {}, {} and {}",
                    shape_text(rows.shape), shape_text(weights.shape), shape_text(position.shape)));
    return {{"", {{weights.shape[0], weights.shape[1], rows.last()}, rows.dtype}}};
  }

  void forward(EmitContext& c) const override {
    c.call("moe_combine")
        .read(c.input(0))
        .read(c.input(1))
        .read(c.input(2))
        .write(c.output(0))
        .flops(2.0 * products(c))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    c.call("moe_combine.backward")
        .read(c.gradient(0))
        .read(c.input(0))
        .read(c.input(1))
        .read(c.input(2))
        .write_gradient(0, false)
        .write_gradient(1, false)
        .flops(3.0 * products(c))
        .emit();
  }

 private:
  static double products(const EmitContext& c) {
    return count_of(c.input_type(1)) * static_cast<double>(c.input_type(0).last());
  }
};

}  // namespace

std::unique_ptr<OpRule> make_moe_combine() { return std::make_unique<MoeCombine>(); }

}  // namespace plimsoll
