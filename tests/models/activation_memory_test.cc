// What a GPT layer keeps for backward, from the rules alone, against the published closed form.
#include "models/autodiff.h"
#include "models/model.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

namespace plimsoll {
namespace {

struct Sizes {
  int64_t s, b, h, a;
};

ModelSpec gpt(const Sizes& sizes, int64_t layers) {
  ModelSpec spec = load_model("gpt2-tiny");
  spec.layers = layers;
  spec.hidden = sizes.h;
  spec.heads = spec.kv_heads = sizes.a;
  spec.head_dim = sizes.h / sizes.a;
  spec.feed_forward = 4 * sizes.h;
  spec.max_positions = sizes.s;
  return spec;
}

TrainingGraph train(const Sizes& sizes, const SaveRules& rules, const std::string& attention,
                    double dropout = 0.1) {
  return differentiate(build_model(gpt(sizes, 3), {.micro_batch = sizes.b,
                                                   .seq = sizes.s,
                                                   .float_type = DType::kBF16,
                                                   .save_rules = rules,
                                                   .dropout = dropout,
                                                   .attention = attention}),
                       DType::kF32);
}

struct Kept {
  int64_t activations = 0;
  int64_t norm_statistics = 0;
  std::map<std::string, int64_t> by_tensor;  // without the statistics of the norms
};

// Saved tensors that the backward of `layer` reads: its own and the block's input.
Kept kept_by_layer(const TrainingGraph& graph, int layer) {
  std::set<TensorId> read;
  for (const KernelCall& call : graph.backward) {
    if (call.layer == layer) read.insert(call.inputs.begin(), call.inputs.end());
  }
  Kept kept;
  for (const TensorId id : saved_tensors(graph)) {
    if (read.count(id) == 0) continue;
    const Tensor& tensor = graph.tensors[static_cast<size_t>(id)];
    const int64_t bytes = tensor.type.bytes();
    if (tensor.role == Role::kStatistic && tensor.op == "layer_norm") {
      kept.norm_statistics += bytes;
    } else {
      kept.activations += bytes;
      kept.by_tensor[tensor.name] = bytes;
    }
  }
  return kept;
}

Sizes any_sizes() {
  const int64_t a = *rc::gen::inRange<int64_t>(1, 9);
  return {.s = *rc::gen::inRange<int64_t>(1, 65),
          .b = *rc::gen::inRange<int64_t>(1, 9),
          .h = a * *rc::gen::inRange<int64_t>(1, 33),
          .a = a};
}

RC_GTEST_PROP(ActivationMemory, FollowsKorthikantiUnderItsRules, ()) {
  const Sizes n = any_sizes();
  const TrainingGraph graph = train(n, SaveRules::korthikanti(), "naive");
  for (int layer = 0; layer < 3; ++layer) {
    const Kept kept = kept_by_layer(graph, layer);
    RC_ASSERT(kept.activations == 34 * n.s * n.b * n.h + 5 * n.a * n.s * n.s * n.b);
    RC_ASSERT(kept.norm_statistics == 16 * n.s * n.b);
  }
}

RC_GTEST_PROP(ActivationMemory, OwnRulesSaveTheMasksAndTheSquares, ()) {
  const Sizes n = any_sizes();
  const Kept kept = kept_by_layer(train(n, SaveRules::plimsoll(), "flash"), 1);
  const int64_t log_sum_exp = 4 * n.a * n.s * n.b;
  RC_ASSERT(kept.activations == 32 * n.s * n.b * n.h + log_sum_exp);
  RC_ASSERT(kept.norm_statistics == 16 * n.s * n.b);
}

TEST(ActivationMemory, DifferenceBetweenTheRulesByTensor) {
  const Sizes n{.s = 32, .b = 2, .h = 64, .a = 4};
  const Kept paper = kept_by_layer(train(n, SaveRules::korthikanti(), "naive"), 1);
  const auto difference = [&](const Kept& own) {
    std::map<std::string, int64_t> bytes = paper.by_tensor;
    for (const auto& [name, value] : own.by_tensor) bytes[name] -= value;
    std::erase_if(bytes, [](const auto& entry) { return entry.second == 0; });
    return bytes;
  };
  const int64_t mask = n.s * n.b * n.h;
  const int64_t square = n.a * n.s * n.s * n.b;
  const std::map<std::string, int64_t> masks{{"h.1.attn.mask", square},
                                             {"h.1.attn.dropped", 2 * square},
                                             {"h.1.attn.resid_dropout.mask", mask},
                                             {"h.1.mlp.dropout.mask", mask}};
  EXPECT_EQ(difference(kept_by_layer(train(n, SaveRules::plimsoll(), "naive"), 1)), masks);
  std::map<std::string, int64_t> flash = masks;
  flash["h.1.attn.probs"] = 2 * square;
  flash["h.1.attn.lse"] = -4 * n.a * n.s * n.b;
  EXPECT_EQ(difference(kept_by_layer(train(n, SaveRules::plimsoll(), "flash"), 1)), flash);
}

TEST(ActivationMemory, WithoutDropoutNoRuleStoresMasks) {
  const Sizes n{.s = 16, .b = 2, .h = 32, .a = 2};
  for (const SaveRules& rules : {SaveRules::korthikanti(), SaveRules::plimsoll()}) {
    const Kept kept = kept_by_layer(train(n, rules, "naive", 0), 1);
    EXPECT_EQ(kept.activations, 32 * n.s * n.b * n.h + 2 * n.a * n.s * n.s * n.b);
  }
}

// The head's logits become their gradient in place, so only they, their targets' statistics and the
// last norm are kept outside the blocks; in chunks the logits are not kept at all.
TEST(ActivationMemory, ChunkedLossKeepsNoLogits) {
  const ModelSpec spec = load_model("gpt2-tiny");
  const auto logits_kept = [&](int64_t chunks) {
    const TrainingGraph graph = differentiate(
        build_model(spec, {.micro_batch = 2, .seq = 32, .save_rules = {}, .loss_chunks = chunks}),
        DType::kF32);
    int64_t found = 0;
    for (const TensorId id : saved_tensors(graph)) {
      const TensorType& type = graph.tensors[static_cast<size_t>(id)].type;
      if (type.last() == spec.vocabulary && type.rows() == 64) ++found;
    }
    return found;
  };
  // Width 4 C = 256 of the feed-forward equals the vocabulary here: two tensors in each of 2
  // blocks.
  EXPECT_EQ(logits_kept(1) - logits_kept(4), 1);
}

}  // namespace
}  // namespace plimsoll
