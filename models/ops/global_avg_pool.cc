// The mean of each channel of each image.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class GlobalAvgPool final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "global_avg_pool"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 1 && c.inputs[0].shape.size() == 4,
              "global_avg_pool takes x [N, C, H, W]");
    const Shape& x = c.inputs[0].shape;
    return {{"", {{x[0], x[1]}, c.inputs[0].dtype}}};
  }

  void forward(EmitContext& c) const override {
    c.call("global_avg_pool")
        .read(c.input(0))
        .write(c.output(0))
        .flops(count_of(c.input_type(0)))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    c.call("global_avg_pool.backward")
        .read(c.gradient(0))
        .write_gradient(0, false)
        .flops(count_of(c.input_type(0)))
        .emit();
  }
};

}  // namespace

std::unique_ptr<OpRule> make_global_avg_pool() { return std::make_unique<GlobalAvgPool>(); }

}  // namespace plimsoll
