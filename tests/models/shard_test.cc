// Graphs of tensor-parallel ranks: what they keep, exchange and hold.
#include "models/shard.h"

#include "base/error.h"
#include "models/autodiff.h"
#include "models/model.h"
#include "models/stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

namespace plimsoll {
namespace {

struct Sizes {
  int64_t s, b, h, a;
};

ModelSpec gpt(const Sizes& sizes) {
  ModelSpec spec = load_model("gpt2-tiny");
  spec.layers = 3;
  spec.hidden = sizes.h;
  spec.heads = spec.kv_heads = sizes.a;
  spec.head_dim = sizes.h / sizes.a;
  spec.feed_forward = 4 * sizes.h;
  spec.max_positions = sizes.s;
  return spec;
}

// Bytes that the backward of a middle layer needs, and those of the norms' statistics.
struct Kept {
  int64_t activations = 0, norm_statistics = 0;
};
Kept kept(const Sizes& n, const ShardOptions& options) {
  const Graph whole = build_model(gpt(n), {.micro_batch = n.b,
                                           .seq = n.s,
                                           .float_type = DType::kBF16,
                                           .save_rules = SaveRules::korthikanti(),
                                           .dropout = 0.1,
                                           .attention = "naive"});
  const TrainingGraph graph = differentiate(shard(whole, options), DType::kF32);
  std::set<TensorId> read;
  for (const KernelCall& call : graph.backward) {
    if (call.layer == 1) read.insert(call.inputs.begin(), call.inputs.end());
  }
  // A view is read for what it views.
  for (size_t i = graph.tensors.size(); i-- > 0;) {
    const TensorId of = graph.tensors[i].view_of;
    if (of != kNoTensor && read.count(static_cast<TensorId>(i)) != 0) read.insert(of);
  }
  Kept sum;
  for (const TensorId id : saved_tensors(graph)) {
    if (read.count(id) == 0) continue;
    const Tensor& tensor = graph.tensors[static_cast<size_t>(id)];
    const bool statistic = tensor.role == Role::kStatistic && tensor.op == "layer_norm";
    (statistic ? sum.norm_statistics : sum.activations) += tensor.type.bytes();
  }
  return sum;
}

// Korthikanti et al. 2022, equations 2 and 4, multiplied out.
int64_t closed_form(const Sizes& n, const ShardOptions& options) {
  const int64_t t = options.tp;
  const int64_t plane = n.s * n.b * n.h;
  const int64_t squares = 5 * n.a * n.s * n.s * n.b;
  if (options.sequence_parallel) return (34 * plane + squares) / t;
  return 10 * plane + (24 * plane + squares) / t;
}

RC_GTEST_PROP(ShardedActivations, FollowKorthikanti, ()) {
  const int tp = 1 << *rc::gen::inRange(0, 4);
  const int64_t a = tp * *rc::gen::inRange<int64_t>(1, 4);
  const Sizes n{.s = tp * *rc::gen::inRange<int64_t>(1, 17),
                .b = *rc::gen::inRange<int64_t>(1, 5),
                .h = a * *rc::gen::inRange<int64_t>(1, 17),
                .a = a};
  const ShardOptions options{.tp = tp, .sequence_parallel = tp > 1 && *rc::gen::arbitrary<bool>()};
  const Kept found = kept(n, options);
  RC_ASSERT(found.activations == closed_form(n, options));
  RC_ASSERT(found.norm_statistics == 16 * n.s * n.b / (options.sequence_parallel ? tp : 1));
}

TEST(ShardedActivations, PublishedModels) {
  struct Row {
    Sizes sizes;
    int64_t none, tensor, sequence;
  };
  for (const Row& row : {Row{{2048, 4, 6144, 64}, 7079985152, 1325400064, 884998144},
                         Row{{2048, 1, 12288, 96}, 2868903936, 578813952, 358612992},
                         Row{{2048, 1, 20480, 128}, 4110417920, 880803840, 513802240},
                         Row{{2048, 1, 25600, 160}, 5138022400, 1101004800, 642252800}}) {
    EXPECT_EQ(kept(row.sizes, {}).activations, row.none);
    EXPECT_EQ(kept(row.sizes, {.tp = 8}).activations, row.tensor);
    EXPECT_EQ(kept(row.sizes, {.tp = 8, .sequence_parallel = true}).activations, row.sequence);
  }
}

std::vector<ModelSpec> small_transformers() {
  std::vector<ModelSpec> specs;
  for (const char* name : {"gpt2-tiny", "llama-tiny", "bert-tiny", "vit-tiny"}) {
    specs.push_back(load_model(name));
  }
  return specs;
}

Graph small_graph(const ModelSpec& spec, int64_t chunks = 1) {
  return build_model(
      spec, {.micro_batch = 2, .seq = 8, .save_rules = {}, .dropout = 0.1, .loss_chunks = chunks});
}

using Counts = std::map<std::string, int>;
Counts collectives(const std::vector<KernelCall>& calls, int layer) {
  Counts counts;
  for (const KernelCall& call : calls) {
    if (call.layer != layer || !call.attributes.has("group")) continue;
    EXPECT_EQ(call.attributes.get_string("group"), "tp");
    EXPECT_EQ(call.flops, 0);
    ++counts[call.kernel];
  }
  return counts;
}

TEST(Shard, ExchangesAsMegatronDoes) {
  for (const ModelSpec& spec : small_transformers()) {
    for (const int tp : {2, 4}) {
      SCOPED_TRACE(spec.name + ", tp " + std::to_string(tp));
      const TrainingGraph t = differentiate(shard(small_graph(spec), {.tp = tp}), DType::kF32);
      for (int layer = 0; layer < spec.layers; ++layer) {
        EXPECT_EQ(collectives(t.forward, layer), (Counts{{"all_reduce", 2}}));
        EXPECT_EQ(collectives(t.backward, layer), (Counts{{"all_reduce", 2}}));
      }
      if (spec.family == Family::kVit) continue;  // 17 tokens
      const Graph local = shard(small_graph(spec), {.tp = tp, .sequence_parallel = true});
      const TrainingGraph s = differentiate(local, DType::kF32);
      for (int layer = 0; layer < spec.layers; ++layer) {
        EXPECT_EQ(collectives(s.forward, layer),
                  (Counts{{"all_gather", 2}, {"reduce_scatter", 2}}));
        // Two gather gradients, two gather inputs of column-parallel ops once more.
        EXPECT_EQ(collectives(s.backward, layer),
                  (Counts{{"all_gather", 4}, {"reduce_scatter", 2}}));
      }
    }
  }
}

int64_t box_elements(const std::vector<ParameterBox>& boxes) {
  int64_t sum = 0;
  for (const ParameterBox& box : boxes) sum += num_elements(box.extent);
  return sum;
}

// How often each element of each outside tensor is held by the ranks, counted one by one.
std::map<std::string, std::vector<int>> holders(const Tensor& parameter, int tp) {
  std::map<std::string, std::vector<int>> held;
  for (int rank = 0; rank < tp; ++rank) {
    for (const ParameterBox& box : parameter_boxes(parameter, rank)) {
      std::vector<int>& count = held[box.name];
      const int64_t columns = num_elements(box.global_shape) / box.global_shape[0];
      count.resize(static_cast<size_t>(num_elements(box.global_shape)));
      // Only matrices are cut along another dimension than the first.
      const bool cut = box.extent.size() == 2;
      const int64_t first = cut ? box.start[1] : 0;
      const int64_t width = cut ? box.extent[1] : columns;
      for (int64_t row = box.start[0]; row < box.start[0] + box.extent[0]; ++row) {
        for (int64_t c = first; c < first + width; ++c) {
          ++count.at(static_cast<size_t>(row * columns + c));
        }
      }
    }
  }
  return held;
}

TEST(Shard, RanksHoldEveryParameter) {
  for (ModelSpec spec : small_transformers()) {
    for (const int64_t vocabulary : {spec.vocabulary, int64_t{251}}) {
      if (spec.family != Family::kVit) spec.vocabulary = vocabulary;
      for (const int tp : {2, 4}) {
        SCOPED_TRACE(spec.name + ", tp " + std::to_string(tp));
        const Graph whole = small_graph(spec);
        const Graph local = shard(whole, {.tp = tp});
        ASSERT_EQ(whole.parameters().size(), local.parameters().size());
        for (size_t i = 0; i < whole.parameters().size(); ++i) {
          const Tensor& all = whole.tensor(whole.parameters()[i]);
          const Tensor& mine = local.tensor(local.parameters()[i]);
          ASSERT_EQ(all.name, mine.name);
          ASSERT_TRUE(mine.shard.has_value());
          int64_t outside = 0;
          for (const auto& [name, counts] : holders(mine, tp)) {
            outside += static_cast<int64_t>(counts.size());
            if (mine.shard->dimension < 0) {
              EXPECT_THAT(counts, testing::Each(tp)) << name;
            } else if (spec.kv_heads < tp && name.find("k_proj") != std::string::npos) {
              EXPECT_THAT(counts, testing::Each(tp / spec.kv_heads)) << name;
            } else if (spec.kv_heads < tp && name.find("v_proj") != std::string::npos) {
              EXPECT_THAT(counts, testing::Each(tp / spec.kv_heads)) << name;
            } else {
              EXPECT_THAT(counts, testing::Each(1)) << name;
            }
          }
          EXPECT_EQ(outside, all.type.elements()) << mine.name;
          EXPECT_EQ(box_elements(parameter_boxes(mine, 0)), mine.type.elements()) << mine.name;
        }
      }
    }
  }
}

TEST(Shard, GradientsThatAreSumsOverTheGroup) {
  const ModelSpec spec = load_model("gpt2-tiny");
  const auto partial = [&](bool sequence) {
    std::set<std::string> names;
    const Graph local = shard(small_graph(spec), {.tp = 2, .sequence_parallel = sequence});
    for (const TensorId id : local.parameters()) {
      const Tensor& tensor = local.tensor(id);
      if (tensor.shard->partial_gradient) names.insert(tensor.name);
    }
    return names;
  };
  EXPECT_TRUE(partial(false).empty());
  std::set<std::string> expected{"wpe.weight", "ln_f.weight", "ln_f.bias"};
  for (const char* layer : {"h.0.", "h.1."}) {
    for (const char* name : {"ln_1.weight", "ln_1.bias", "ln_2.weight", "ln_2.bias",
                             "attn.c_proj.bias", "mlp.c_proj.bias"}) {
      expected.insert(std::string(layer) + name);
    }
  }
  EXPECT_EQ(partial(true), expected);
}

TEST(Shard, MatrixWorkIsDivided) {
  const auto products = [](const Graph& graph) {
    const TrainingGraph t = differentiate(graph, DType::kF32);
    double sum = 0;
    for (const auto* calls : {&t.forward, &t.backward}) {
      for (const KernelCall& call : *calls) {
        if (call.kernel.starts_with("linear") || call.kernel.starts_with("attention")) {
          sum += call.flops;
        }
      }
    }
    return sum;
  };
  for (const char* name : {"gpt2-tiny", "llama-tiny"}) {
    const Graph whole = small_graph(load_model(name));
    for (const bool sequence : {false, true}) {
      const ShardOptions options{.tp = 2, .sequence_parallel = sequence};
      EXPECT_DOUBLE_EQ(2 * products(shard(whole, options)), products(whole)) << name;
    }
  }
}

TEST(Shard, LossIsReducedOverTheVocabulary) {
  const ModelSpec spec = load_model("llama-tiny");
  for (const int64_t chunks : {1, 2}) {
    const TrainingGraph t = differentiate(shard(small_graph(spec, chunks), {.tp = 2}), DType::kF32);
    std::vector<std::string> reductions;
    for (const KernelCall& call : t.forward) {
      if (call.layer != -1 || call.kernel != "all_reduce") continue;
      reductions.push_back(call.attributes.get_string("reduction", "sum"));
    }
    EXPECT_THAT(reductions, testing::ElementsAre("sum", "max", "sum"));  // the first: embedding
    int losses = 0;
    for (const KernelCall& call : t.forward) {
      for (const TensorId id : call.outputs) losses += id == t.loss ? 1 : 0;
    }
    EXPECT_EQ(losses, 1);
  }
}

TEST(Shard, StagesKeepTheShares) {
  const Graph local = shard(small_graph(load_model("gpt2-tiny")), {.tp = 2});
  const StageBounds bounds = even_stages(2, 2);
  for (const int stage : {0, 1}) {
    const Graph part = take_stage(local, bounds, stage);
    for (const TensorId id : part.parameters()) {
      const Tensor& tensor = part.tensor(id);
      ASSERT_TRUE(tensor.shard.has_value()) << tensor.name;
      EXPECT_EQ(tensor.shard->dimension == 0, tensor.name.find("wte") != std::string::npos ||
                                                  tensor.name.find("c_attn") != std::string::npos ||
                                                  tensor.name.find("c_fc") != std::string::npos)
          << tensor.name;
    }
    EXPECT_EQ(collectives(differentiate(part, DType::kF32).backward, stage),
              (Counts{{"all_reduce", 2}}));
  }
}

TEST(Shard, OneRankIsTheWholeGraph) {
  const Graph whole = small_graph(load_model("gpt2-tiny"));
  const Graph local = shard(whole, {.tp = 1, .sequence_parallel = true});
  ASSERT_EQ(local.tensors().size(), whole.tensors().size());
  EXPECT_EQ(local.num_parameters(), whole.num_parameters());
  EXPECT_EQ(boost::num_vertices(local.ops()), boost::num_vertices(whole.ops()));
}

std::string refusal(const ModelSpec& spec, const ShardOptions& options, int64_t seq = 8) {
  try {
    static_cast<void>(
        shard(build_model(spec, {.micro_batch = 2, .seq = seq, .save_rules = {}}), options));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "";
}

TEST(Shard, RefusesWhatCannotBeDivided) {
  using testing::HasSubstr;
  const ModelSpec gpt2 = load_model("gpt2-tiny");
  EXPECT_THAT(refusal(gpt2, {.tp = 3}), HasSubstr("4 heads cannot be divided over 3"));
  EXPECT_THAT(refusal(gpt2, {.tp = 0}), HasSubstr("at least one"));
  EXPECT_THAT(refusal(gpt2, {.tp = 2, .sequence_parallel = true}, 7),
              HasSubstr("sequence of 7 tokens"));
  ModelSpec llama = load_model("llama-tiny");
  llama.heads = 6;
  llama.kv_heads = 3;
  EXPECT_THAT(refusal(llama, {.tp = 2}), HasSubstr("3 key/value heads cannot be divided over 2"));
  llama = load_model("llama-tiny");
  llama.feed_forward = 190;
  EXPECT_THAT(refusal(llama, {.tp = 4}), HasSubstr("190"));
  EXPECT_THAT(refusal(load_model("resnet-tiny"), {.tp = 2}), HasSubstr("nothing of the model"));
}

}  // namespace
}  // namespace plimsoll
