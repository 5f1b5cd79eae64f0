// Shards along the sequence become a whole value of which every rank computes the same, so that its
// gradient is whole on every rank.
#include "models/ops/collective.h"
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class SpCollect final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "sp_collect"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 1, "sp_collect takes one tensor");
    return {{"", gathered_type(c)}};
  }

  void forward(EmitContext& c) const override {
    exchange(c, "all_gather").read(c.input(0)).write(c.output(0)).emit();
  }

  void backward(BackwardContext& c) const override {
    exchange(c, "slice").read(c.gradient(0)).write_gradient(0, false).emit();
  }
};

}  // namespace

std::unique_ptr<OpRule> make_sp_collect() { return std::make_unique<SpCollect>(); }

}  // namespace plimsoll
