// y[b] = [token; x[b]]: one learned token before the others (a class token).
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class PrependToken final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "prepend_token"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 2, "prepend_token takes x and a token");
    const TensorType& x = c.inputs[0];
    c.require(x.shape.size() == 3 && c.inputs[1].shape == Shape{x.last()},
              fmt::format("x [B, P, C] and a token [C], not {} and {}", shape_text(x.shape),
                          shape_text(c.inputs[1].shape)));
    return {{"", {{x.shape[0], checked_add(x.shape[1], 1), x.shape[2]}, x.dtype}}};
  }

  void backward(BackwardContext& c) const override {
    c.call("prepend_token.backward")
        .read(c.gradient(0))
        .write_gradient(0, false)
        .write_gradient(1, true)
        .flops(static_cast<double>(c.output_type(0).shape[0] * c.output_type(0).last()))
        .emit();
  }
};

}  // namespace

std::unique_ptr<OpRule> make_prepend_token() { return std::make_unique<PrependToken>(); }

}  // namespace plimsoll
