// The sum of squared differences; backward scales by scalars[GradientScale] as every loss does.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class Mse final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "mse"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 2 && !c.inputs[0].shape.empty() && c.inputs[0] == c.inputs[1],
              "mse takes a prediction and a target of one shape");
    return {{"", {{1}, DType::kF64}, Role::kLoss},
            {"row_loss", {{c.inputs[0].rows()}, c.statistic_type}, Role::kStatistic}};
  }

  void forward(EmitContext& c) const override {
    c.call("mse")
        .read(c.input(0))
        .read(c.input(1))
        .write(c.output(0))
        .write(c.output(1))
        .flops(3.0 * count_of(c.input_type(0)))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    c.call("mse.backward")
        .read(c.input(0))
        .read(c.input(1))
        .read(c.scalars())
        .write_gradient(0, false)
        .in_place(0, 0)
        .flops(3.0 * count_of(c.input_type(0)))
        .emit();
  }
};

}  // namespace

std::unique_ptr<OpRule> make_mse() { return std::make_unique<Mse>(); }

}  // namespace plimsoll
