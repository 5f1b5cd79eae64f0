// The sum over the tensor-parallel ranks, of which each keeps its part of the sequence (Korthikanti
// et al. 2022).
#include "models/ops/collective.h"
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class SpScatter final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "sp_scatter"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 1, "sp_scatter takes one tensor");
    return {{"", scattered_type(c)}};
  }

  void forward(EmitContext& c) const override {
    exchange(c, "reduce_scatter").read(c.input(0)).write(c.output(0)).emit();
  }

  void backward(BackwardContext& c) const override {
    exchange(c, "all_gather").read(c.gradient(0)).write_gradient(0, false).emit();
  }
};

}  // namespace

std::unique_ptr<OpRule> make_sp_scatter() { return std::make_unique<SpScatter>(); }

}  // namespace plimsoll
