// Mixture of experts: parameters, rows and their bounds, what a layer keeps, FLOPs, exchanges.
#include "models/autodiff.h"
#include "models/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace plimsoll {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Experts, ActiveParametersCountTheChosenExperts) {
  const auto inactive = [](int64_t layers, int64_t idle, int64_t hidden, int64_t feed_forward) {
    return layers * idle * 3 * hidden * feed_forward;
  };
  EXPECT_EQ(active_parameters(load_model("mixtral-8x7b")),
            46702792704 - inactive(32, 6, 4096, 14336));
  EXPECT_EQ(active_parameters(load_model("mixtral-8x7b")), 12879925248);
  EXPECT_EQ(active_parameters(load_model("mixtral-8x22b")),
            140630071296 - inactive(56, 6, 6144, 16384));
  EXPECT_EQ(active_parameters(load_model("deepseek-v3")),
            671026404352 - inactive(58, 248, 7168, 2048));
  EXPECT_EQ(active_parameters(load_model("deepseek-v3")), 37552282624);
  EXPECT_EQ(active_parameters(load_model("llama-tiny")),
            count_parameters(load_model("llama-tiny")));
}

// DeepSeek-V3 part by part: 61 layers with latent attention, 3 dense, 58 with 256 + 1 experts;
// embedding, final norm and head. Not counted: the multi-token-prediction module and the router's
// correction bias, which no gradient trains.
TEST(Experts, DeepSeekParametersByFormula) {
  const int64_t c = 7168;
  const int64_t queries = c * 1536 + 1536 + 1536 * 128 * (128 + 64);
  const int64_t keys_values = c * (512 + 64) + 512 + 512 * 128 * (128 + 128);
  const int64_t attention = queries + keys_values + 128 * 128 * c;
  const int64_t experts = (256 + 1) * 3 * c * 2048 + 256 * c;
  const int64_t sum =
      61 * (attention + 2 * c) + 3 * 3 * c * 18432 + 58 * experts + 2 * int64_t{129280} * c + c;
  EXPECT_EQ(sum, 671026404352);
  EXPECT_EQ(count_parameters(load_model("deepseek-v3")), sum);
}

TEST(Experts, TrainingLengths) {
  EXPECT_EQ(load_model("mixtral-8x7b").training_length, 8192);
  EXPECT_EQ(load_model("mixtral-8x22b").training_length, 8192);
  EXPECT_EQ(load_model("deepseek-v3").training_length, 4096);
}

TEST(Experts, BlocksOfDenseAndExpertLayersDiffer) {
  const Graph graph =
      build_model(load_model("deepseek-tiny"), {.micro_batch = 1, .seq = 8, .save_rules = {}});
  EXPECT_THAT(graph.block_kinds(), ElementsAre("llama", "experts", "experts"));
}

TEST(Experts, ExpertsAreNamedRowRanges) {
  const auto parts = [](const std::string& model, const std::string& parameter, int64_t ranks) {
    const Graph graph =
        build_model(load_model(model),
                    {.micro_batch = 1, .seq = 8, .save_rules = {}, .expert_parallel = ranks});
    std::vector<std::pair<std::string, int64_t>> found;
    for (const TensorId id : graph.parameters()) {
      const Tensor& tensor = graph.tensor(id);
      if (tensor.name != parameter) continue;
      int64_t rows = 0;
      for (const ParameterPart& part : tensor.parameter->parts) {
        found.emplace_back(part.name, part.rows);
        rows += part.rows;
      }
      EXPECT_EQ(rows, tensor.type.shape[0]);
    }
    return found;
  };
  const std::string mixtral = "model.layers.1.block_sparse_moe.experts.";
  EXPECT_THAT(
      parts("mixtral-tiny", mixtral + "gate_up_proj.weight", 2),
      ElementsAre(std::pair(mixtral + "0.w1.weight", 96), std::pair(mixtral + "0.w3.weight", 96),
                  std::pair(mixtral + "1.w1.weight", 96), std::pair(mixtral + "1.w3.weight", 96)));
  EXPECT_THAT(
      parts("mixtral-tiny", mixtral + "down_proj.weight", 2),
      ElementsAre(std::pair(mixtral + "0.w2.weight", 64), std::pair(mixtral + "1.w2.weight", 64)));
  const std::string deepseek = "model.layers.2.mlp.experts.";
  EXPECT_THAT(parts("deepseek-tiny", deepseek + "down_proj.weight", 4),
              ElementsAre(std::pair(deepseek + "0.down_proj.weight", 64),
                          std::pair(deepseek + "1.down_proj.weight", 64)));
}

// Bytes by tensor that the backward of `layer` reads of what forward made.
std::map<std::string, int64_t> kept_by_layer(const TrainingGraph& graph, int layer) {
  std::set<TensorId> read;
  for (const KernelCall& call : graph.backward) {
    if (call.layer == layer) read.insert(call.inputs.begin(), call.inputs.end());
  }
  std::map<std::string, int64_t> kept;
  for (const TensorId id : saved_tensors(graph)) {
    if (read.count(id) == 0) continue;
    const Tensor& tensor = graph.tensors[static_cast<size_t>(id)];
    kept[tensor.name] = tensor.type.bytes();
  }
  return kept;
}

int64_t sum_of(const std::map<std::string, int64_t>& kept) {
  int64_t sum = 0;
  for (const auto& [name, bytes] : kept) sum += bytes;
  return sum;
}

struct Sizes {
  int64_t batch, seq, hidden, heads, kv_heads, head_dim, experts, chosen, feed_forward;
  [[nodiscard]] int64_t tokens() const { return batch * seq; }
};

Sizes any_sizes() {
  const int64_t kv_heads = *rc::gen::inRange<int64_t>(1, 4);
  const int64_t experts = *rc::gen::inRange<int64_t>(1, 9);
  return {.batch = *rc::gen::inRange<int64_t>(1, 4),
          .seq = *rc::gen::inRange<int64_t>(1, 33),
          .hidden = *rc::gen::inRange<int64_t>(1, 65),
          .heads = kv_heads * *rc::gen::inRange<int64_t>(1, 4),
          .kv_heads = kv_heads,
          .head_dim = 2 * *rc::gen::inRange<int64_t>(1, 9),
          .experts = experts,
          .chosen = *rc::gen::inRange<int64_t>(1, experts + 1),
          .feed_forward = *rc::gen::inRange<int64_t>(1, 65)};
}

ModelSpec mixtral(const Sizes& n) {
  ModelSpec spec = load_model("mixtral-tiny");
  spec.hidden = n.hidden;
  spec.heads = n.heads;
  spec.kv_heads = n.kv_heads;
  spec.head_dim = n.head_dim;
  spec.experts->routed = n.experts;
  spec.experts->chosen = n.chosen;
  spec.experts->feed_forward = n.feed_forward;
  return spec;
}

BuildOptions options_of(const Sizes& n) {
  return {.micro_batch = n.batch, .seq = n.seq, .float_type = DType::kBF16, .save_rules = {}};
}

// Outside the experts, of R tokens in bf16: block input, both norms' outputs and the residual sum
// (2C each, and 4 bytes of rstd a norm), rotated qkv, attention's output and log-sum-exp.
int64_t attention_bytes(const Sizes& n) {
  return n.tokens() * (4 * 2 * n.hidden + 2 * 4 + 2 * (n.heads + 2 * n.kv_heads) * n.head_dim +
                       2 * n.heads * n.head_dim + 4 * n.heads);
}

// The router keeps scores [R, E], indices and weights [R, k]; the dispatch positions [R, k] and
// counts [E]; `rows` rows of the experts' input C, gate and up 2F, product F and output C.
int64_t expert_bytes(const Sizes& n, int64_t rows) {
  const int64_t routing = 4 * n.tokens() * n.experts + 3 * 4 * n.tokens() * n.chosen;
  return routing + 4 * n.experts + 2 * rows * (2 * n.hidden + 3 * n.feed_forward);
}

RC_GTEST_PROP(ExpertMemory, DroplessLayerInClosedForm, ()) {
  const Sizes n = any_sizes();
  const TrainingGraph graph = differentiate(build_model(mixtral(n), options_of(n)), DType::kF32);
  for (int layer = 0; layer < 2; ++layer) {
    RC_ASSERT(sum_of(kept_by_layer(graph, layer)) ==
              attention_bytes(n) + expert_bytes(n, n.tokens() * n.chosen));
  }
}

RC_GTEST_PROP(ExpertMemory, CapacityBoundsTheRows, ()) {
  const Sizes n = any_sizes();
  const int64_t quarters = *rc::gen::inRange<int64_t>(1, 13);
  BuildOptions options = options_of(n);
  options.capacity_factor = static_cast<double>(quarters) / 4;
  const TrainingGraph graph = differentiate(build_model(mixtral(n), options), DType::kF32);
  // ceil(c R k / E) in whole numbers, and no expert can get a token twice.
  const int64_t share = ceil_div(quarters * n.tokens() * n.chosen, 4 * n.experts);
  const int64_t rows = n.experts * std::min(share, n.tokens());
  RC_ASSERT(sum_of(kept_by_layer(graph, 1)) == attention_bytes(n) + expert_bytes(n, rows));
}

// Over ranks: counts received beside counts sent, and the dispatched rows give way to the received
// ones; the results come back as R*k rows, which the combination keeps.
RC_GTEST_PROP(ExpertMemory, ExpertParallelLayerInClosedForm, ()) {
  Sizes n = any_sizes();
  const int64_t ranks = *rc::gen::inRange<int64_t>(2, 5);
  n.experts *= ranks;
  n.chosen = *rc::gen::inRange<int64_t>(1, n.experts + 1);
  BuildOptions options = options_of(n);
  options.expert_parallel = ranks;
  options.expert_imbalance = 1.5;
  const TrainingGraph graph = differentiate(build_model(mixtral(n), options), DType::kF32);
  const int64_t chosen = n.tokens() * n.chosen;
  const int64_t worst = ranks * n.tokens() * std::min(n.chosen, n.experts / ranks);
  const int64_t bound = std::min(ceil_div(3 * chosen, 2), worst);
  const int64_t routing = 4 * n.tokens() * n.experts + 3 * 4 * chosen + 2 * 4 * n.experts;
  const int64_t rows = 2 * bound * (n.hidden + 3 * n.feed_forward) + 2 * chosen * n.hidden;
  RC_ASSERT(sum_of(kept_by_layer(graph, 1)) == attention_bytes(n) + routing + rows);
}

TEST(ExpertMemory, SharedExpertsKeepADenseLayersWorth) {
  ModelSpec spec = load_model("mixtral-tiny");
  const auto kept = [&] {
    return sum_of(kept_by_layer(
        differentiate(
            build_model(spec,
                        {.micro_batch = 2, .seq = 8, .float_type = DType::kBF16, .save_rules = {}}),
            DType::kF32),
        1));
  };
  const int64_t without = kept();
  spec.experts->shared = 2;
  EXPECT_EQ(kept() - without, 2 * 16 * 3 * 2 * spec.experts->feed_forward);
}

// Latent attention keeps, of R tokens in bf16: what comes down and its norms' outputs (the key part
// apart, which lives on rotated), what goes up, the output and statistics.
TEST(ExpertMemory, LatentAttentionInClosedForm) {
  const ModelSpec spec = load_model("deepseek-tiny");
  const LatentAttentionSpec& latent = *spec.latent_attention;
  const TrainingGraph graph = differentiate(
      build_model(spec, {.micro_batch = 2, .seq = 8, .float_type = DType::kBF16, .save_rules = {}}),
      DType::kF32);
  const int64_t tokens = 16;
  const int64_t block = 4 * 2 * spec.hidden + 2 * 4;
  const int64_t low = 2 * 2 * (latent.query_rank + latent.kv_rank) + 2 * 4;
  const int64_t high =
      2 * spec.heads * (spec.head_dim + latent.nope_dim + latent.value_dim) + 2 * latent.rope_dim;
  const int64_t output = 2 * spec.heads * latent.value_dim + 4 * spec.heads;
  const int64_t feed_forward = 2 * 3 * spec.feed_forward;
  EXPECT_EQ(sum_of(kept_by_layer(graph, 0)), tokens * (block + low + high + output + feed_forward));
}

// Matrix products of a step, attention's own apart.
double products(const std::vector<KernelCall>& calls) {
  double sum = 0;
  for (const KernelCall& call : calls) {
    if (call.kernel.starts_with("linear") || call.kernel.starts_with("moe_expert_linear")) {
      sum += call.flops;
    }
  }
  return sum;
}

double attention_flops(const std::vector<KernelCall>& calls) {
  double sum = 0;
  for (const KernelCall& call : calls) {
    if (call.kernel.find("attention") != std::string::npos) sum += call.flops;
  }
  return sum;
}

int64_t vectors_and_embedding(const Graph& graph) {
  int64_t sum = 0;
  for (const TensorId id : graph.parameters()) {
    const Tensor& tensor = graph.tensor(id);
    if (tensor.type.shape.size() == 1 || tensor.op == "embedding") sum += tensor.type.elements();
  }
  return sum;
}

// 2 FLOPs an active parameter and token forward, 4 backward: without the embedding, which is looked
// up, and the norms. Attention is 4 L s h forward, h its width.
TEST(ExpertFlops, FollowTheActiveParameters) {
  for (const char* name : {"mixtral-8x7b", "deepseek-v3", "mixtral-tiny", "deepseek-tiny"}) {
    const ModelSpec spec = load_model(name);
    const int64_t tokens = 2 * 64;
    const Graph graph = build_model(spec, {.micro_batch = 2,
                                           .seq = 64,
                                           .float_type = DType::kBF16,
                                           .save_rules = {},
                                           .attention = "naive"});
    const TrainingGraph t = differentiate(graph, DType::kF32);
    const auto matrices =
        static_cast<double>(active_parameters(spec) - vectors_and_embedding(graph));
    EXPECT_DOUBLE_EQ(products(t.forward), 2.0 * static_cast<double>(tokens) * matrices) << name;
    EXPECT_DOUBLE_EQ(products(t.backward), 4.0 * static_cast<double>(tokens) * matrices) << name;
    const double attention =
        4.0 * static_cast<double>(tokens * spec.layers * 64 * attention_width(spec));
    EXPECT_DOUBLE_EQ(attention_flops(t.forward), attention) << name;
    EXPECT_DOUBLE_EQ(attention_flops(t.backward), 2 * attention) << name;
  }
}

TEST(ExpertFlops, ARankOfManyDoesTheSameWorkOnFewerExperts) {
  const ModelSpec spec = load_model("mixtral-tiny");
  const auto build = [&](int64_t ranks, double capacity) {
    return differentiate(build_model(spec, {.micro_batch = 2,
                                            .seq = 64,
                                            .save_rules = {},
                                            .capacity_factor = capacity,
                                            .expert_parallel = ranks}),
                         DType::kF32);
  };
  const double one = products(build(1, 0).forward);
  EXPECT_DOUBLE_EQ(products(build(4, 0).forward), one);
  EXPECT_DOUBLE_EQ(products(build(4, 1.25).forward), one);  // padding is not computed
  EXPECT_LT(products(build(1, 0.5).forward), one);          // half of the choices are dropped
}

std::vector<KernelCall> exchanges(const std::vector<KernelCall>& calls) {
  std::vector<KernelCall> found;
  for (const KernelCall& call : calls) {
    if (call.layer == 0 && call.kernel == "all_to_all") found.push_back(call);
  }
  return found;
}

TEST(ExpertParallel, RowsGoOutAndComeBack) {
  const ModelSpec spec = load_model("mixtral-tiny");  // 4 experts, 2 a token
  const TrainingGraph t = differentiate(build_model(spec, {.micro_batch = 2,
                                                           .seq = 8,
                                                           .save_rules = {},
                                                           .expert_parallel = 2,
                                                           .expert_imbalance = 1.25}),
                                        DType::kF32);
  const auto shape = [&](TensorId id) { return t.tensors[static_cast<size_t>(id)].type.shape; };
  const std::vector<KernelCall> forward = exchanges(t.forward);
  ASSERT_EQ(forward.size(), 3U);
  EXPECT_EQ(shape(forward[0].inputs[0]), Shape({4}));
  EXPECT_EQ(shape(forward[0].outputs[0]), Shape({4}));
  EXPECT_EQ(shape(forward[1].inputs[0]), Shape({32, 64}));
  EXPECT_EQ(shape(forward[1].outputs[0]), Shape({40, 64}));
  EXPECT_EQ(shape(forward[2].inputs[0]), Shape({40, 64}));
  EXPECT_EQ(shape(forward[2].outputs[0]), Shape({32, 64}));
  // Sent and received change places on the way back, and again in backward.
  EXPECT_EQ(forward[1].inputs[1], forward[2].inputs[2]);
  EXPECT_EQ(forward[1].inputs[2], forward[2].inputs[1]);
  const std::vector<KernelCall> backward = exchanges(t.backward);
  ASSERT_EQ(backward.size(), 2U);
  EXPECT_EQ(shape(backward[0].outputs[0]), Shape({40, 64}));
  EXPECT_EQ(backward[0].attributes.get_int("row_bound"), 40);
  EXPECT_EQ(shape(backward[1].outputs[0]), Shape({32, 64}));
  EXPECT_EQ(backward[1].attributes.get_int("row_bound"), 32);
  EXPECT_EQ(backward[0].inputs[1], forward[1].inputs[1]);
  for (const auto& list : {forward, backward}) {
    for (const KernelCall& call : list) EXPECT_EQ(call.attributes.get_string("group"), "ep");
  }
}

TEST(ExpertParallel, WithACapacityPartsAreEqual) {
  const TrainingGraph t =
      differentiate(build_model(load_model("mixtral-tiny"), {.micro_batch = 2,
                                                             .seq = 8,
                                                             .save_rules = {},
                                                             .capacity_factor = 1.25,
                                                             .expert_parallel = 2}),
                    DType::kF32);
  for (const KernelCall& call : exchanges(t.forward)) {
    EXPECT_EQ(call.inputs[1], kNoTensor);
    EXPECT_EQ(t.tensors[static_cast<size_t>(call.inputs[0])].type,
              t.tensors[static_cast<size_t>(call.outputs[0])].type);
  }
}

TEST(ExpertParallel, TheBoundIsNeverAboveWhatRoutingCanMake) {
  // One expert a rank: a rank gets at most every token of both ranks once.
  const TrainingGraph t =
      differentiate(build_model(load_model("mixtral-tiny"), {.micro_batch = 1,
                                                             .seq = 8,
                                                             .save_rules = {},
                                                             .expert_parallel = 4,
                                                             .expert_imbalance = 100}),
                    DType::kF32);
  EXPECT_EQ(t.tensors[static_cast<size_t>(exchanges(t.forward)[1].outputs[0])].type.shape[0],
            4 * 8);
}

std::string message_of(const ModelSpec& spec, const BuildOptions& options) {
  try {
    static_cast<void>(build_model(spec, options));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "(no error)";
}

TEST(ExpertErrors, NameWhatDoesNotFit) {
  const BuildOptions options{.micro_batch = 1, .seq = 8, .save_rules = {}};
  const auto with_spec = [&](auto change, const char* base = "mixtral-tiny") {
    ModelSpec spec = load_model(base);
    change(spec);
    return message_of(spec, options);
  };
  const auto with_options = [&](auto change, const char* model = "mixtral-tiny") {
    BuildOptions changed = options;
    change(changed);
    return message_of(load_model(model), changed);
  };
  EXPECT_THAT(with_spec([](auto& s) { s.experts->chosen = 5; }), HasSubstr("5 of 4 experts"));
  EXPECT_THAT(with_spec([](auto& s) { s.experts->routed = 0; }), HasSubstr("positive"));
  EXPECT_THAT(with_spec([](auto& s) { s.experts->routed = int64_t{1} << 40; }),
              HasSubstr("exceed the limit"));
  EXPECT_THAT(with_spec([](auto& s) { s.experts->dense_layers = 3; }), HasSubstr("dense layers"));
  EXPECT_THAT(with_spec([](auto& s) { s.experts->groups = 3; }), HasSubstr("cannot form 3 groups"));
  EXPECT_THAT(with_spec([](auto& s) { s.experts->scoring = "cosine"; }), HasSubstr("cosine"));
  EXPECT_THAT(with_spec([](auto& s) { s.experts->names = "x"; }), HasSubstr("names"));
  EXPECT_THAT(with_spec([](auto& s) { s.experts.reset(); }), HasSubstr("has experts"));
  EXPECT_THAT(with_spec([](auto& s) { s.experts.emplace(); }, "llama-tiny"),
              HasSubstr("no other has"));
  EXPECT_THAT(with_spec([](auto& s) { s.head_dim = 16; }, "deepseek-tiny"), HasSubstr("16+8"));
  EXPECT_THAT(with_spec([](auto& s) { s.kv_heads = 2; }, "deepseek-tiny"),
              HasSubstr("as many key/value heads"));
  EXPECT_THAT(with_spec([](auto& s) { s.experts->top_groups = 5; }, "deepseek-tiny"),
              HasSubstr("5 of 4 groups"));
  EXPECT_THAT(with_options([](auto& o) { o.expert_parallel = 3; }),
              HasSubstr("cannot be shared out over 3 ranks"));
  EXPECT_THAT(with_options([](auto& o) { o.expert_parallel = 0; }), HasSubstr("at least 1"));
  EXPECT_THAT(with_options([](auto& o) { o.expert_parallel = 2; }, "llama-tiny"),
              HasSubstr("only models with experts"));
  EXPECT_THAT(with_options([](auto& o) { o.capacity_factor = -1; }), HasSubstr("capacity factor"));
  EXPECT_THAT(with_options([](auto& o) { o.expert_imbalance = 0.5; }), HasSubstr("imbalance"));
}

}  // namespace
}  // namespace plimsoll
