// The input of an op of which every tensor-parallel rank computes a part (f of Shoeybi et al.
// 2019): the value is each rank's already, its gradient is the sum over the ranks.
#include "models/ops/collective.h"
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class TpCopy final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "tp_copy"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 1, "tp_copy takes one tensor");
    return {{"", c.inputs[0], Role::kActivation, true}};
  }

  void forward(EmitContext& c) const override {
    // A view of input 0: nothing to run.
    static_cast<void>(c);
  }

  void backward(BackwardContext& c) const override {
    all_reduce(c, c.gradient(0)).write_gradient(0, false).continuing(c.gradient(0)).emit();
  }
};

}  // namespace

std::unique_ptr<OpRule> make_tp_copy() { return std::make_unique<TpCopy>(); }

}  // namespace plimsoll
