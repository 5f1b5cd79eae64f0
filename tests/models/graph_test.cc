// Shape rules and their errors; marked blocks; names outside.
#include "models/graph.h"

#include "models/autodiff.h"
#include "models/model.h"
#include "models/op_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace plimsoll {
namespace {

using testing::HasSubstr;

// The message of the Error that `work` throws; its code must be that of bad input.
std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "(no error)";
}

struct Misfit {
  std::string kind;
  std::vector<TensorType> inputs;
  Attributes attributes;
  std::string message;
};

TensorType f32(Shape shape) { return {std::move(shape), DType::kF32}; }
TensorType i32(Shape shape) { return {std::move(shape), DType::kI32}; }

const Attributes kHeads{
    {"heads", int64_t{4}},  {"kv_heads", int64_t{3}},       {"head_dim", int64_t{8}},
    {"causal", int64_t{1}}, {"form", std::string("flash")}, {"dropout", 0.0},
    {"theta", 1e4}};

Attributes changed(Attributes attributes, const Attributes& changes) {
  for (const auto& [name, value] : changes.entries()) attributes.set(name, value);
  return attributes;
}

Attributes with_heads(const Attributes& changes) { return changed(kHeads, changes); }

Attributes latent(const Attributes& changes) {
  return changed({{"heads", int64_t{4}},
                  {"nope_dim", int64_t{2}},
                  {"rope_dim", int64_t{4}},
                  {"value_dim", int64_t{3}},
                  {"form", std::string("flash")},
                  {"dropout", 0.0},
                  {"theta", 1e4}},
                 changes);
}

Attributes router(const Attributes& changes) {
  return changed({{"top_k", int64_t{2}},
                  {"scoring", std::string("softmax")},
                  {"groups", int64_t{4}},
                  {"top_groups", int64_t{1}}},
                 changes);
}

Attributes rows(const Attributes& changes) {
  return changed({{"experts", int64_t{2}}, {"capacity", int64_t{0}}, {"routed_rows", int64_t{9}}},
                 changes);
}

Attributes along(int64_t dimension) { return {{"tp", int64_t{2}}, {"dimension", dimension}}; }

std::vector<Misfit> misfits() {
  const TensorType none{};
  const Attributes window{{"kernel", int64_t{9}}, {"stride", int64_t{1}}, {"padding", int64_t{0}}};
  return {
      {"linear", {f32({2, 3}), f32({5, 4}), none}, {}, "[2, 3] does not fit weight [5, 4]"},
      {"linear", {f32({2, 4}), f32({5, 4}), f32({4})}, {}, "bias [4] does not fit"},
      {"linear", {f32({2, 4}), f32({5, 4})}, {}, "optional bias"},
      {"embedding", {f32({2, 4}), f32({5, 4})}, {}, "i32 tokens"},
      {"position_embedding", {f32({2, 9, 4}), f32({8, 4})}, {}, "9 tokens need as many positions"},
      {"prepend_token", {f32({2, 9, 4}), f32({5})}, {}, "a token [C]"},
      {"select_token", {f32({2, 9, 4})}, {{"index", int64_t{9}}}, "outside 9 tokens"},
      {"image_to_tokens", {f32({2, 9, 4})}, {}, "[B, C, H, W]"},
      {"qk_norm", {f32({2, 9, 80}), f32({8}), f32({9})}, with_heads({}), "must be [8]"},
      {"qk_norm", {f32({2, 9, 81}), f32({8}), f32({8})}, with_heads({}), "need 80"},
      {"split_columns", {f32({2, 9})}, {{"columns", int64_t{9}}}, "9 of 9 columns"},
      {"mla_rope", {f32({2, 9, 24}), f32({2, 9, 2})}, latent({}), "[2, 9, 2]"},
      {"mla_rope", {f32({2, 9, 25}), f32({2, 9, 2})}, latent({}), "need 24"},
      {"mla_rope", {f32({2, 9, 24}), f32({2, 9, 4})}, latent({{"rope_dim", int64_t{3}}}), "even"},
      {"mla_attention",
       {f32({2, 9, 24}), f32({2, 9, 28}), f32({2, 9, 2})},
       latent({}),
       "kv must be [2, 9, 20], not [2, 9, 28]"},
      {"mla_attention",
       {f32({2, 9, 24}), f32({2, 9, 20}), f32({2, 8, 4})},
       latent({}),
       "must be [2, 9, 4], not [2, 8, 4]"},
      {"mla_attention",
       {f32({2, 9, 24}), f32({2, 9, 20}), f32({2, 9, 4})},
       latent({{"form", std::string("fast")}}),
       "flash or naive"},
      {"moe_router", {f32({2, 9, 8})}, router({{"top_k", int64_t{9}}}), "9 of 8 experts"},
      {"moe_router", {f32({2, 9, 8})}, router({{"groups", int64_t{3}}}), "3 groups"},
      {"moe_router", {f32({2, 9, 8})}, router({{"top_k", int64_t{3}}}), "fewer than the 3"},
      {"moe_router", {f32({2, 9, 8})}, router({{"scoring", std::string("x")}}), "not x"},
      {"moe_dispatch", {f32({2, 9, 4}), f32({2, 9, 2})}, rows({}), "i32 indices"},
      {"moe_dispatch", {f32({2, 9, 4}), i32({2, 8, 2})}, rows({}), "i32 indices"},
      {"moe_dispatch",
       {f32({2, 9, 4}), i32({2, 9, 2})},
       rows({{"capacity", int64_t{19}}}),
       "[0, 18] tokens"},
      {"moe_expert_linear", {f32({9, 4}), f32({8, 5}), i32({2})}, rows({}), "weights [8, 5]"},
      {"moe_expert_linear", {f32({9, 4}), f32({9, 4}), i32({2})}, rows({}), "of 2 experts"},
      {"moe_expert_linear", {f32({9, 4}), f32({8, 4}), i32({3})}, rows({}), "counts of groups"},
      {"moe_expert_linear",
       {f32({9, 4}), f32({8, 4}), i32({4})},
       rows({{"capacity", int64_t{2}}}),
       "4 groups of 2 rows"},
      {"moe_expert_linear",
       {f32({9, 4}), f32({8, 4}), i32({2})},
       rows({{"routed_rows", int64_t{10}}}),
       "10 rows are routed into 9"},
      {"moe_combine", {f32({9, 4}), f32({2, 9, 2}), i32({2, 9, 1})}, {}, "positions [B, T, k]"},
      {"all_to_all", {f32({9, 4}), i32({4}), none}, {{"group", std::string("ep")}}, "both absent"},
      {"layer_norm", {f32({2, 4}), f32({4}), f32({5})}, {{"epsilon", 1e-5}}, "must be [4]"},
      {"rms_norm", {f32({2, 4}), f32({5})}, {{"epsilon", 1e-5}}, "must be [4]"},
      {"rope", {f32({1, 2, 79})}, kHeads, "need 80"},
      {"attention", {f32({1, 2, 80})}, kHeads, "4 query heads cannot share 3"},
      {"gelu", {f32({2})}, {{"approximate", std::string("fast")}}, "tanh or erf"},
      {"relu", {f32({2}), f32({2})}, {}, "one tensor"},
      {"swiglu", {f32({2, 3})}, {}, "even width"},
      {"residual", {f32({2}), f32({3})}, {}, "one shape"},
      {"dropout", {f32({2})}, {{"p", 1.0}, {"key", int64_t{1}}}, "[0, 1)"},
      {"cross_entropy", {f32({2, 5}), i32({3})}, {}, "one i32 target a row"},
      {"linear_cross_entropy",
       {f32({2, 4}), f32({5, 4}), i32({2})},
       {{"chunks", int64_t{3}}},
       "chunks must be in [1, 2]"},
      {"mse", {f32({2, 4}), f32({2, 5})}, {}, "one shape"},
      {"conv2d",
       {f32({1, 2, 4, 4}), f32({3, 2, 5, 5}), none},
       {{"stride", int64_t{1}}, {"padding", int64_t{0}}},
       "5x5 does not fit images of 4x4"},
      {"conv2d",
       {f32({1, 2, 4, 4}), f32({3, 2, 3, 3}), none},
       {{"stride", int64_t{0}}, {"padding", int64_t{0}}},
       "stride must be positive"},
      {"batch_norm",
       {f32({1, 2, 1, 1}), f32({2}), f32({2}), f32({2, 2})},
       {{"epsilon", 1e-5}},
       "one value a channel"},
      {"batch_norm",
       {f32({1, 2, 3, 3}), f32({2}), f32({2}), f32({2})},
       {{"epsilon", 1e-5}},
       "running statistics [2, 2]"},
      {"max_pool2d", {f32({1, 2, 4, 4})}, window, "9x9 does not fit"},
      {"global_avg_pool", {f32({1, 2})}, {}, "[N, C, H, W]"},
      {"flatten", {}, {}, "one tensor"},
      {"bias_add", {f32({2, 4}), f32({5})}, {}, "x's last extent"},
      {"tp_copy", {}, {}, "one tensor"},
      {"tp_reduce", {}, {}, "one tensor"},
      {"sp_gather", {f32({2, 4})}, along(2), "no dimension 2"},
      {"sp_collect", {f32({2, 4})}, along(2), "no dimension 2"},
      {"sp_scatter", {f32({2, 5, 4})}, along(1), "5 tokens cannot be divided over 2"},
      {"sp_slice", {f32({2, 5, 4})}, along(1), "5 tokens cannot be divided over 2"},
      {"vocab_cross_entropy", {f32({2, 5}), i32({3})}, {}, "one i32 target a row"},
      {"vocab_linear_cross_entropy",
       {f32({2, 4}), f32({5, 4}), i32({2})},
       {{"chunks", int64_t{3}}},
       "chunks must be in [1, 2]"},
  };
}

TEST(ShapeRules, MisfitsAreErrorsThatNameTheOp) {
  std::set<std::string> kinds;
  for (const Misfit& misfit : misfits()) {
    Graph graph(SaveRules::plimsoll(), DType::kF32, true);
    std::vector<TensorId> inputs;
    for (const TensorType& type : misfit.inputs) {
      inputs.push_back(type.shape.empty() ? kNoTensor : graph.add_input("x", type));
    }
    const std::string message =
        message_of([&] { graph.add(misfit.kind, "h.3.thing", inputs, misfit.attributes); });
    EXPECT_THAT(message, HasSubstr("h.3.thing")) << misfit.kind;
    EXPECT_THAT(message, HasSubstr(misfit.message)) << misfit.kind;
    kinds.insert(misfit.kind);
  }
  EXPECT_EQ(kinds.size(), op_kinds().size());  // no room without an error
}

TEST(ShapeRules, EmptyAndHugeTensorsAreRefused) {
  Graph graph(SaveRules::plimsoll(), DType::kF32, true);
  EXPECT_THAT(message_of([&] { graph.add_input("x", f32({2, 0})); }), HasSubstr("x: the shape"));
  EXPECT_THAT(message_of([&] { graph.add_parameter("w", {-1}, {}); }), HasSubstr("w: the shape"));
  EXPECT_THAT(message_of([&] {
                graph.add_input("x", f32({int64_t{1} << 40, int64_t{1} << 40}));
              }),
              HasSubstr("overflow"));
  EXPECT_THAT(message_of([&] { graph.add("softplus", "x", {}); }), HasSubstr("softplus"));
}

TEST(BuildModel, OptionsThatDoNotSuitAreErrors) {
  const ModelSpec gpt2 = load_model("gpt2-tiny");
  const auto with = [](auto change) {
    BuildOptions options{.micro_batch = 2, .seq = 8, .save_rules = {}};
    change(options);
    return options;
  };
  const auto message = [&](const ModelSpec& spec, auto change) {
    return message_of([&] { static_cast<void>(build_model(spec, with(change))); });
  };
  EXPECT_THAT(message(gpt2, [](auto& o) { o.seq = 65; }), HasSubstr("64 learned positions"));
  EXPECT_THAT(message(gpt2, [](auto& o) { o.seq = 0; }), HasSubstr("must be positive"));
  EXPECT_THAT(message(gpt2, [](auto& o) { o.micro_batch = 0; }), HasSubstr("micro-batch"));
  EXPECT_THAT(message(gpt2, [](auto& o) { o.micro_batch = int64_t{1} << 60; }),
              HasSubstr("overflow"));
  EXPECT_THAT(message(gpt2, [](auto& o) { o.loss_chunks = 17; }), HasSubstr("[1, 16]"));
  EXPECT_THAT(message(gpt2, [](auto& o) { o.loss_chunks = 0; }), HasSubstr("at least 1"));
  EXPECT_THAT(message(gpt2, [](auto& o) { o.dropout = 1; }), HasSubstr("[0, 1)"));
  EXPECT_THAT(message(gpt2, [](auto& o) { o.attention = "fast"; }), HasSubstr("flash or naive"));
  EXPECT_THAT(message(gpt2, [](auto& o) { o.float_type = DType::kI32; }), HasSubstr("i32"));
  EXPECT_THAT(message(load_model("bert-tiny"), [](auto& o) { o.loss_chunks = 2; }),
              HasSubstr("next-token"));
  EXPECT_THAT(message(load_model("resnet-tiny"), [](auto& o) { o.dropout = 0.1; }),
              HasSubstr("no dropout"));
  // Rotary positions have no table to exceed.
  EXPECT_EQ(message(load_model("llama-tiny"), [](auto& o) { o.seq = 4096; }), "(no error)");
}

TEST(BuildModel, SpecsThatMakeNoModelAreErrors) {
  ModelSpec spec = load_model("gpt2-tiny");
  spec.heads = spec.kv_heads = 5;
  EXPECT_THAT(message_of([&] { static_cast<void>(count_parameters(spec)); }),
              HasSubstr("must make up hidden size 64"));
  spec = load_model("gpt2-tiny");
  spec.hidden = 0;
  EXPECT_THAT(message_of([&] { static_cast<void>(count_parameters(spec)); }),
              HasSubstr("hidden must be positive"));
  spec = load_model("vit-tiny");
  spec.patch = 3;
  EXPECT_THAT(message_of([&] { static_cast<void>(count_parameters(spec)); }),
              HasSubstr("patches of 3"));
}

// One line a call: all that planning could see, but for the names and random keys.
std::string calls_of_layer(const TrainingGraph& t, const std::vector<KernelCall>& calls,
                           int layer) {
  std::string text;
  const auto types = [&](const std::vector<TensorId>& ids) {
    for (const TensorId id : ids) {
      text += id == kNoTensor ? " -" : shape_text(t.tensors[static_cast<size_t>(id)].type.shape);
    }
  };
  for (const KernelCall& call : calls) {
    if (call.layer != layer) continue;
    text += call.kernel;
    types(call.inputs);
    text += " ->";
    types(call.outputs);
    for (const TensorId id : call.accumulated) text += id == kNoTensor ? " w" : " a";
    for (const auto& [name, value] : call.attributes.entries()) {
      if (name == "key") continue;
      text += " " + name;
      std::visit([&](const auto& v) { text += fmt::format("={}", v); }, value);
    }
    text += fmt::format(" {} {}\n", call.flops, call.bytes_moved);
  }
  return text;
}

TEST(Blocks, EqualKindsMarkEqualBlocks) {
  for (const ModelSpec& spec : builtin_models()) {
    const Graph graph = build_model(spec, {.micro_batch = 2,
                                           .seq = 8,
                                           .save_rules = {},
                                           .dropout = spec.family == Family::kResNet ? 0 : 0.1});
    EXPECT_EQ(graph.num_layers(), spec.layers) << spec.name;
    const TrainingGraph t = differentiate(graph, DType::kF32);
    std::map<std::string, std::pair<std::string, std::string>> by_kind;
    for (int layer = 0; layer < graph.num_layers(); ++layer) {
      const std::pair calls(calls_of_layer(t, t.forward, layer),
                            calls_of_layer(t, t.backward, layer));
      EXPECT_FALSE(calls.first.empty() || calls.second.empty()) << spec.name << layer;
      const auto [at, fresh] =
          by_kind.emplace(graph.block_kinds()[static_cast<size_t>(layer)], calls);
      if (fresh) continue;
      EXPECT_EQ(at->second.first, calls.first) << spec.name << " layer " << layer;
      EXPECT_EQ(at->second.second, calls.second) << spec.name << " layer " << layer;
    }
    if (spec.family == Family::kGpt2 || spec.family == Family::kLlama) {
      EXPECT_EQ(by_kind.size(), 1U) << spec.name;
    }
  }
}

TEST(Names, FusedParametersListTheirParts) {
  const Graph graph =
      build_model(load_model("llama-tiny"), {.micro_batch = 1, .seq = 8, .save_rules = {}});
  std::map<std::string, std::vector<std::pair<std::string, int64_t>>> parts;
  for (const TensorId id : graph.parameters()) {
    const Tensor& tensor = graph.tensor(id);
    int64_t rows = 0;
    for (const ParameterPart& part : tensor.parameter->parts) {
      parts[tensor.name].emplace_back(part.name, part.rows);
      EXPECT_FALSE(part.transposed);
      rows += part.rows;
    }
    EXPECT_EQ(rows, tensor.type.shape.front()) << tensor.name;
  }
  EXPECT_THAT(parts.at("model.layers.1.self_attn.qkv_proj.weight"),
              testing::ElementsAre(std::pair("model.layers.1.self_attn.q_proj.weight", 64),
                                   std::pair("model.layers.1.self_attn.k_proj.weight", 32),
                                   std::pair("model.layers.1.self_attn.v_proj.weight", 32)));
  EXPECT_THAT(parts.at("model.layers.1.mlp.gate_up_proj.weight"),
              testing::ElementsAre(std::pair("model.layers.1.mlp.gate_proj.weight", 192),
                                   std::pair("model.layers.1.mlp.up_proj.weight", 192)));
}

TEST(Names, Gpt2StoresItsProjectionsTransposed) {
  const Graph graph =
      build_model(load_model("gpt2-tiny"), {.micro_batch = 1, .seq = 8, .save_rules = {}});
  for (const TensorId id : graph.parameters()) {
    const Tensor& tensor = graph.tensor(id);
    ASSERT_EQ(tensor.parameter->parts.size(), 1U);
    EXPECT_EQ(tensor.parameter->parts[0].name, tensor.name);
    const bool projection =
        tensor.name.find(".c_") != std::string::npos && tensor.parameter->matrix;
    EXPECT_EQ(tensor.parameter->parts[0].transposed, projection) << tensor.name;
    EXPECT_EQ(tensor.parameter->matrix, tensor.type.shape.size() == 2) << tensor.name;
  }
}

}  // namespace
}  // namespace plimsoll
