// y = x / (1 - p) where kept, else 0. The mask is a function of (seed, step, key, global sample,
// element), so backward draws it again; save rules of other frameworks store it, one byte an
// element.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class Dropout final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "dropout"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 1, "dropout takes one tensor");
    c.require(c.training, "dropout belongs to training alone");
    const double p = c.attributes.get_double("p");
    c.require(p >= 0 && p < 1, fmt::format("the probability must be in [0, 1), not {}", p));
    std::vector<OutputSpec> outputs{{"", c.inputs[0]}};
    if (c.save_rules.store_dropout_mask) {
      outputs.push_back({"mask", {c.inputs[0].shape, DType::kU8}, Role::kStatistic});
    }
    return outputs;
  }

  void forward(EmitContext& c) const override {
    CallBuilder call = c.call("dropout");
    for (const TensorId id : c.op().outputs) call.write(id);
    call.read(c.input(0)).in_place(0, 0).flops(2.0 * count_of(c.output_type(0))).emit();
  }

  void backward(BackwardContext& c) const override {
    CallBuilder call = c.call("dropout.backward").read(c.gradient(0));
    if (c.op().outputs.size() > 1) call.read(c.output(1));
    call.write_gradient(0, false).in_place(0, 0).flops(count_of(c.output_type(0))).emit();
  }

  [[nodiscard]] std::vector<Sharding> shardings(const ShardingContext& c) const override {
    // The mask is that of the whole tensor, so a rank must know where its elements lie in it.
    std::vector<Sharding> ways = elementwise_shardings(c);
    for (Sharding& way : ways) {
      if (way.inputs[0].kind != Layout::Kind::kSharded) continue;
      way.attributes.set("tp", c.tp);
      way.attributes.set("dimension", way.inputs[0].dimension);
    }
    return ways;
  }
};

}  // namespace

std::unique_ptr<OpRule> make_dropout() { return std::make_unique<Dropout>(); }

}  // namespace plimsoll
