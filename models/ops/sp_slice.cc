// Each tensor-parallel rank's part, along the sequence, of a value that all have whole.
#include "models/ops/collective.h"
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class SpSlice final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "sp_slice"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 1, "sp_slice takes one tensor");
    return {{"", scattered_type(c)}};
  }

  void forward(EmitContext& c) const override {
    exchange(c, "slice").read(c.input(0)).write(c.output(0)).emit();
  }

  void backward(BackwardContext& c) const override {
    exchange(c, "all_gather").read(c.gradient(0)).write_gradient(0, false).emit();
  }
};

}  // namespace

std::unique_ptr<OpRule> make_sp_slice() { return std::make_unique<SpSlice>(); }

}  // namespace plimsoll
