// Scores of E experts a token in the statistics' type, and the k best with their weights: softmax
// (Shazeer et al. 2017; Mixtral) or sigmoid (DeepSeek-V3), chosen inside the best groups where
// experts form groups. The gradient flows through the weights of the chosen experts alone, so
// backward needs scores and indices.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class MoeRouter final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "moe_router"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 1 && c.inputs[0].shape.size() == 3,
              "moe_router takes logits [B, T, E]");
    const Shape& logits = c.inputs[0].shape;
    const int64_t experts = logits[2];
    const int64_t top_k = c.attributes.get_int("top_k");
    const int64_t groups = c.attributes.get_int("groups");
    const int64_t top_groups = c.attributes.get_int("top_groups");
    c.require(top_k > 0 && top_k <= experts,
              fmt::format("{} of {} experts cannot be chosen", top_k, experts));
    c.require(groups > 0 && experts % groups == 0,
              fmt::format("{} experts cannot form {} groups", experts, groups));
    c.require(top_groups > 0 && top_groups <= groups,
              fmt::format("{} of {} groups cannot be chosen", top_groups, groups));
    c.require(top_k <= experts / groups * top_groups,
              fmt::format("{} groups of {} experts hold fewer than the {} to choose", top_groups,
                          experts / groups, top_k));
    const std::string& scoring = c.attributes.get_string("scoring");
    c.require(scoring == "softmax" || scoring == "sigmoid",
              "scores are softmax or sigmoid, not " + scoring);
    const Shape chosen{logits[0], logits[1], top_k};
    return {{"", {chosen, c.statistic_type}, Role::kStatistic},
            {"indices", {chosen, DType::kI32}, Role::kStatistic},
            {"scores", {logits, c.statistic_type}, Role::kStatistic}};
  }

  void forward(EmitContext& c) const override {
    c.call("moe_router")
        .read(c.input(0))
        .write(c.output(0))
        .write(c.output(1))
        .write(c.output(2))
        .flops(6.0 * count_of(c.input_type(0)))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    c.call("moe_router.backward")
        .read(c.gradient(0))
        .read(c.output(1))
        .read(c.output(2))
        .write_gradient(0, false)
        .flops(4.0 * count_of(c.input_type(0)))
        .emit();
  }
};

}  // namespace

std::unique_ptr<OpRule> make_moe_router() { return std::make_unique<MoeRouter>(); }

}  // namespace plimsoll
