// y[b, i, c] = x[b, c, i]: pixels (or patches) become tokens.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class ImageToTokens final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "image_to_tokens"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 1 && c.inputs[0].shape.size() == 4,
              "image_to_tokens takes x [B, C, H, W]");
    const Shape& x = c.inputs[0].shape;
    return {{"", {{x[0], checked_mul(x[2], x[3]), x[1]}, c.inputs[0].dtype}}};
  }

  void backward(BackwardContext& c) const override {
    c.call("image_to_tokens.backward").read(c.gradient(0)).write_gradient(0, false).emit();
  }
};

}  // namespace

std::unique_ptr<OpRule> make_image_to_tokens() { return std::make_unique<ImageToTokens>(); }

}  // namespace plimsoll
