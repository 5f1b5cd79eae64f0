// Sum over rows of -log softmax(logits)[target]; targets of -100 are ignored. Saves the
// log-sum-exp of each row; backward turns the logits into their gradient in place.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class CrossEntropy final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "cross_entropy"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 2, "cross_entropy takes logits and targets");
    const TensorType& logits = c.inputs[0];
    c.require(!logits.shape.empty() && c.inputs[1].dtype == DType::kI32 &&
                  c.inputs[1].elements() == logits.rows(),
              fmt::format("logits {} need one i32 target a row, not {}", shape_text(logits.shape),
                          shape_text(c.inputs[1].shape)));
    const TensorType row{{logits.rows()}, c.statistic_type};
    return {{"", {{1}, DType::kF64}, Role::kLoss},
            {"row_loss", row, Role::kStatistic},
            {"lse", row, Role::kStatistic}};
  }

  void forward(EmitContext& c) const override {
    c.call("cross_entropy")
        .read(c.input(0))
        .read(c.input(1))
        .write(c.output(0))
        .write(c.output(1))
        .write(c.output(2))
        .flops(4.0 * static_cast<double>(c.input_type(0).elements()))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    c.call("cross_entropy.backward")
        .read(c.input(0))
        .read(c.input(1))
        .read(c.output(2))
        .read(c.scalars())
        .write_gradient(0, false)
        .in_place(0, 0)
        .flops(3.0 * static_cast<double>(c.input_type(0).elements()))
        .emit();
  }

  [[nodiscard]] std::vector<Sharding> shardings(const ShardingContext& c) const override {
    std::vector<Sharding> ways;
    // Heads over a vocabulary, [B, T, V]; classifiers are small and stay whole.
    if (c.inputs[0].shape.size() == 3) {
      ways.push_back({.inputs = {Layout::padded_shards(2), {}},
                      .outputs = std::vector<Layout>(c.num_outputs),
                      .attributes = {{"tp", int64_t{c.tp}}, {"vocabulary", c.inputs[0].last()}},
                      .local_kind = "vocab_cross_entropy"});
    }
    ways.push_back(c.replicated());
    return ways;
  }
};

}  // namespace

std::unique_ptr<OpRule> make_cross_entropy() { return std::make_unique<CrossEntropy>(); }

}  // namespace plimsoll
