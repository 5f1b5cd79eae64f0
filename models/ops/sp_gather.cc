// Shards along the sequence become the whole input of an op of which every rank computes a part;
// the gradient is summed and cut again (Korthikanti et al. 2022). Backward keeps the shard alone
// and gathers once more.
#include "models/ops/collective.h"
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class SpGather final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "sp_gather"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 1, "sp_gather takes one tensor");
    return {{"", gathered_type(c)}};
  }

  void forward(EmitContext& c) const override {
    exchange(c, "all_gather").read(c.input(0)).write(c.output(0)).emit();
  }

  void backward(BackwardContext& c) const override {
    exchange(c, "reduce_scatter").read(c.gradient(0)).write_gradient(0, false).emit();
  }

  [[nodiscard]] bool made_again() const override { return true; }
};

}  // namespace

std::unique_ptr<OpRule> make_sp_gather() { return std::make_unique<SpGather>(); }

}  // namespace plimsoll
