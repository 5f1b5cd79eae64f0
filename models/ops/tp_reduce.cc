// The sum over the tensor-parallel ranks (g of Shoeybi et al. 2019); the gradient of each summand
// is that of the sum.
#include "models/ops/collective.h"
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class TpReduce final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "tp_reduce"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 1, "tp_reduce takes one tensor");
    return {{"", c.inputs[0]}};
  }

  void forward(EmitContext& c) const override {
    all_reduce(c, c.input(0)).write(c.output(0)).continuing(c.input(0)).emit();
  }

  void backward(BackwardContext& c) const override { c.pass_gradient(0); }
};

}  // namespace

std::unique_ptr<OpRule> make_tp_reduce() { return std::make_unique<TpReduce>(); }

}  // namespace plimsoll
