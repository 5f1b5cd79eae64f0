// Hugging Face configs: good ones, refused ones, and bytes that are neither.
#include "base/files.h"
#include "models/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace plimsoll {
namespace {

using testing::HasSubstr;

constexpr const char* kGpt2 = R"({
  "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
  "attn_pdrop": 0.1, "bos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
  "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "n_inner": null,
  "vocab_size": 50257
})";

constexpr const char* kLlama31 = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": false,
  "eos_token_id": [128001, 128008], "hidden_act": "silu", "hidden_size": 4096,
  "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 131072,
  "mlp_bias": false, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": false, "vocab_size": 128256,
  "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 8192, "rope_type": "llama3"}
})";

constexpr const char* kLlamaNew = R"({
  "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
  "num_hidden_layers": 2, "head_dim": 32, "vocab_size": 100, "tie_word_embeddings": true,
  "rope_parameters": {"rope_theta": 20000.0, "rope_type": "default"}
})";

constexpr const char* kMistral = R"({
  "model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
  "max_position_embeddings": 32768, "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "sliding_window": null,
  "vocab_size": 32000
})";

constexpr const char* kMixtral = R"({
  "model_type": "mixtral", "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
  "max_position_embeddings": 32768, "num_attention_heads": 32, "num_experts_per_tok": 2,
  "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8,
  "output_router_logits": false, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
  "router_aux_loss_coef": 0.02, "router_jitter_noise": 0.0, "sliding_window": null,
  "tie_word_embeddings": false, "vocab_size": 32000
})";

constexpr const char* kQwen2 = R"({
  "model_type": "qwen2", "hidden_act": "silu", "hidden_size": 896, "intermediate_size": 4864,
  "max_position_embeddings": 32768, "max_window_layers": 21, "num_attention_heads": 14,
  "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
  "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true,
  "use_sliding_window": false, "vocab_size": 151936
})";

constexpr const char* kQwen3 = R"({
  "model_type": "qwen3", "attention_bias": false, "head_dim": 128, "hidden_act": "silu",
  "hidden_size": 1024, "intermediate_size": 3072, "max_position_embeddings": 40960,
  "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-06, "rope_theta": 1000000, "sliding_window": null,
  "tie_word_embeddings": true, "use_sliding_window": false, "vocab_size": 151936
})";

constexpr const char* kDeepSeekV3 = R"({
  "model_type": "deepseek_v3", "attention_bias": false, "first_k_dense_replace": 3,
  "hidden_act": "silu", "hidden_size": 7168, "initializer_range": 0.02,
  "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840,
  "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256,
  "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 128,
  "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
  "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06, "rope_theta": 10000,
  "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0,
                   "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"},
  "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": false,
  "topk_group": 4, "topk_method": "noaux_tc", "v_head_dim": 128, "vocab_size": 129280
})";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(HuggingFace, Gpt2) {
  const ModelSpec spec = parse_hugging_face_config(kGpt2, "models/gpt2/config.json");
  EXPECT_EQ(spec.name, "gpt2");
  EXPECT_EQ(spec.family, Family::kGpt2);
  EXPECT_EQ(spec.feed_forward, 3072);
  EXPECT_EQ(spec.gelu, "tanh");
  EXPECT_TRUE(spec.tied_embeddings);
  EXPECT_EQ(spec.training_length, 1024);
  EXPECT_EQ(count_parameters(spec), 124439808);
}

TEST(HuggingFace, Llama31) {
  const ModelSpec spec = parse_hugging_face_config(kLlama31, "llama31.json");
  EXPECT_EQ(spec.name, "llama31");
  EXPECT_EQ(spec.training_length, 8192);
  EXPECT_EQ(spec.max_positions, 131072);
  EXPECT_EQ(spec.head_dim, 128);
  EXPECT_EQ(spec.rope_theta, 5e5);
  ASSERT_TRUE(spec.rope_scaling.has_value());
  EXPECT_EQ(spec.rope_scaling->factor, 8);
  EXPECT_EQ(spec.rope_scaling->original_context, 8192);
  EXPECT_EQ(count_parameters(spec), 8030261248);
}

TEST(HuggingFace, DefaultsOfAbsentKeys) {
  const ModelSpec spec = parse_hugging_face_config(kLlamaNew, "x.json");
  EXPECT_EQ(spec.kv_heads, 4);
  EXPECT_EQ(spec.head_dim, 32);  // heads need not make up the hidden size
  EXPECT_EQ(spec.rope_theta, 20000);
  EXPECT_FALSE(spec.rope_scaling.has_value());
  EXPECT_EQ(spec.norm_epsilon, 1e-6);
  EXPECT_EQ(spec.training_length, 2048);
  // One table, two layers of (4 + 2 * 4) heads, output projection, feed-forward and norms.
  EXPECT_EQ(count_parameters(spec),
            100 * 64 + 2 * (384 * 64 + 64 * 128 + 3 * 128 * 64 + 2 * 64) + 64);
}

TEST(HuggingFace, Mistral) {
  const ModelSpec spec = parse_hugging_face_config(kMistral, "x.json");
  EXPECT_EQ(spec.family, Family::kLlama);
  EXPECT_EQ(count_parameters(spec), 7241732096);
  const std::string absent = replaced(kMistral, R"("num_key_value_heads": 8,)", "");
  EXPECT_EQ(parse_hugging_face_config(absent, "x.json").kv_heads, 8);
}

TEST(HuggingFace, Mixtral) {
  const ModelSpec spec = parse_hugging_face_config(kMixtral, "x.json");
  EXPECT_EQ(spec.family, Family::kMoe);
  EXPECT_EQ(spec.training_length, 8192);
  EXPECT_EQ(spec.experts->names, "mixtral");
  EXPECT_EQ(count_parameters(spec), 46702792704);
  EXPECT_EQ(active_parameters(spec), 12879925248);
  const ModelSpec built_in = load_model("mixtral-8x7b");
  EXPECT_EQ(spec.rope_theta, built_in.rope_theta);
  EXPECT_EQ(spec.norm_epsilon, built_in.norm_epsilon);
}

TEST(HuggingFace, QwenHasBiasesOrNormsOfHeads) {
  const ModelSpec qwen2 = parse_hugging_face_config(kQwen2, "x.json");
  EXPECT_TRUE(qwen2.attention_bias);
  EXPECT_EQ(count_parameters(qwen2), 494032768);
  const ModelSpec qwen3 = parse_hugging_face_config(kQwen3, "x.json");
  EXPECT_TRUE(qwen3.head_norm);
  EXPECT_EQ(count_parameters(qwen3), 596049920);
}

TEST(HuggingFace, DeepSeekV3) {
  const ModelSpec spec = parse_hugging_face_config(kDeepSeekV3, "x.json");
  const ModelSpec built_in = load_model("deepseek-v3");
  EXPECT_EQ(count_parameters(spec), 671026404352);
  EXPECT_EQ(active_parameters(spec), active_parameters(built_in));
  EXPECT_EQ(spec.experts->weight_scale, built_in.experts->weight_scale);
  EXPECT_EQ(spec.experts->scoring, built_in.experts->scoring);
  EXPECT_EQ(spec.experts->groups, built_in.experts->groups);
  EXPECT_EQ(spec.experts->top_groups, built_in.experts->top_groups);
  ASSERT_TRUE(spec.yarn.has_value());
  EXPECT_EQ(spec.yarn->factor, 40);
  const std::string direct =
      replaced(kDeepSeekV3, R"("q_lora_rank": 1536)", R"("q_lora_rank": null)");
  EXPECT_EQ(parse_hugging_face_config(direct, "x.json").latent_attention->query_rank, 0);
  const std::string none =
      replaced(kDeepSeekV3, R"("n_shared_experts": 1)", R"("n_shared_experts": 0)");
  EXPECT_EQ(parse_hugging_face_config(none, "x.json").experts->shared, 0);
}

struct Refused {
  const char* config;
  const char* from;
  const char* to;
  const char* key;
  const char* reason;
};

class HuggingFaceRefuses : public testing::TestWithParam<Refused> {};

TEST_P(HuggingFaceRefuses, NamingFileAndKey) {
  const Refused& one = GetParam();
  const std::string text = replaced(one.config, one.from, one.to);
  try {
    static_cast<void>(parse_hugging_face_config(text, "dir/config.json"));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), HasSubstr("dir/config.json"));
    EXPECT_THAT(error.what(), HasSubstr(one.key));
    EXPECT_THAT(std::string(error.what()) + error.hint(), HasSubstr(one.reason));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, HuggingFaceRefuses,
    testing::Values(
        Refused{kGpt2, R"("n_head": 12)", R"("n_head": 11)", "n_head", "does not divide"},
        Refused{kGpt2, R"("n_head": 12)", R"("n_head": 0)", "n_head", "must be in [1,"},
        Refused{kGpt2, R"("n_head": 12)", R"("n_head": -12)", "n_head", "must be in [1,"},
        Refused{kGpt2, R"("n_head": 12)", R"("n_head": 12.0)", "n_head", "integer"},
        Refused{kGpt2, R"("n_head": 12)", R"("n_head": "12")", "n_head", "integer"},
        Refused{kGpt2, R"("n_head": 12)", R"("n_head": true)", "n_head", "integer"},
        Refused{kGpt2, R"("n_head": 12,)", "", "n_head", "is missing"},
        Refused{kGpt2, R"("n_embd": 768)", R"("n_embd": 18446744073709551615)", "n_embd", "[1,"},
        Refused{kGpt2, R"("n_embd": 768)", R"("n_embd": 1e300)", "n_embd", "integer"},
        Refused{kGpt2, R"("n_embd": 768)", R"("n_embd": 1e999)", "JSON", "out_of_range"},
        Refused{kGpt2, R"("n_layer": 12)", R"("n_layer": 1000000)", "n_layer", "100000"},
        Refused{kGpt2, R"("vocab_size": 50257)", R"("vocab_size": null)", "vocab_size", "missing"},
        Refused{kGpt2, "1e-05", "-1e-05", "layer_norm_epsilon", "positive"},
        Refused{kGpt2, "1e-05", "\"small\"", "layer_norm_epsilon", "a number"},
        Refused{kGpt2, "gelu_new", "relu", "activation_function", "supported"},
        Refused{kGpt2, R"("n_ctx": 1024)", R"("scale_attn_weights": false)", "scale_attn_weights",
                "not supported"},
        Refused{kGpt2, R"("n_ctx": 1024)", R"("scale_attn_by_inverse_layer_idx": true)",
                "scale_attn_by_inverse_layer_idx", "not supported"},
        Refused{kGpt2, R"("n_ctx": 1024)", R"("tie_word_embeddings": 1)", "tie_word_embeddings",
                "true or false"},
        Refused{kGpt2, R"("model_type": "gpt2")", R"("model_type": "bloom")", "model_type",
                "gpt2, llama"},
        Refused{kGpt2, R"("model_type": "gpt2",)", "", "model_type", "gpt2, llama"},
        Refused{kGpt2, R"("model_type": "gpt2")", R"("model_type": ["gpt2"])", "model_type",
                "a string"},
        Refused{kGpt2, "}", "", "JSON", "parse error"},
        Refused{kLlama31, R"("num_key_value_heads": 8)", R"("num_key_value_heads": 5)",
                "num_key_value_heads", "does not divide"},
        Refused{kLlama31, R"("num_attention_heads": 32)", R"("num_attention_heads": 24)",
                "num_attention_heads", "does not divide hidden_size"},
        Refused{kLlama31, R"("num_attention_heads": 32)",
                R"("num_attention_heads": 32, "head_dim": 127)", "head_dim", "even"},
        Refused{kLlama31, R"("attention_bias": false)", R"("attention_bias": true)",
                "attention_bias", "not supported"},
        Refused{kLlama31, R"("mlp_bias": false)", R"("mlp_bias": true)", "mlp_bias",
                "not supported"},
        Refused{kLlama31, R"("silu")", R"("gelu")", "hidden_act", "only silu"},
        Refused{kLlama31, R"("mlp_bias": false)", R"("sliding_window": 4096)", "sliding_window",
                "not supported"},
        Refused{kLlama31, R"("llama3")", R"("yarn")", "rope_scaling.rope_type", "yarn"},
        Refused{kLlama31, R"("factor": 8.0)", R"("factor": 0.5)", "rope_scaling.factor",
                "at least 1"},
        Refused{kLlama31, R"("high_freq_factor": 4.0)", R"("high_freq_factor": 1.0)",
                "rope_scaling.high_freq_factor", "exceed"},
        Refused{kLlama31, R"("low_freq_factor": 1.0,)", "", "rope_scaling.low_freq_factor",
                "missing"},
        Refused{kLlamaNew, R"("rope_type": "default")", R"("partial_rotary_factor": 0.5)",
                "rope_parameters.partial_rotary_factor", "not supported"},
        Refused{kLlamaNew, R"({"rope_theta": 20000.0, "rope_type": "default"})", "7",
                "rope_parameters", "an object"},
        Refused{kMistral, R"("sliding_window": null)", R"("sliding_window": 4096)",
                "sliding_window", "set it to null"},
        Refused{kMistral, R"("sliding_window": null,)", "", "sliding_window", "which means 4096"},
        Refused{kMixtral, R"("router_jitter_noise": 0.0)", R"("router_jitter_noise": 0.1)",
                "router_jitter_noise", "not supported"},
        Refused{kMixtral, R"("output_router_logits": false)", R"("output_router_logits": true)",
                "output_router_logits", "auxiliary loss"},
        Refused{kMixtral, R"("num_local_experts": 8)", R"("num_local_experts": 0)",
                "num_local_experts", "[1,"},
        Refused{kQwen2, R"("use_sliding_window": false)", R"("use_sliding_window": true)",
                "use_sliding_window", "not supported"},
        Refused{kQwen2, R"("use_sliding_window": false)",
                R"("layer_types": ["full_attention", "sliding_attention"])", "layer_types",
                "full_attention alone"},
        Refused{kQwen3, R"("attention_bias": false)", R"("attention_bias": true)", "attention_bias",
                "not supported"},
        Refused{kDeepSeekV3, R"("noaux_tc")", R"("greedy")", "topk_method", "greedy"},
        Refused{kDeepSeekV3, R"("moe_layer_freq": 1)", R"("moe_layer_freq": 2)", "moe_layer_freq",
                "not supported"},
        Refused{kDeepSeekV3, R"("scoring_func": "sigmoid")", R"("scoring_func": "tanh")",
                "scoring_func", "supported"},
        Refused{kDeepSeekV3, R"("num_key_value_heads": 128)", R"("num_key_value_heads": 8)",
                "num_key_value_heads", "must equal"},
        Refused{kDeepSeekV3, R"("qk_rope_head_dim": 64)", R"("qk_rope_head_dim": 63)",
                "qk_rope_head_dim", "even"},
        Refused{kDeepSeekV3, R"("factor": 40)", R"("factor": 0.5)", "rope_scaling.factor",
                "at least 1"},
        Refused{kDeepSeekV3, R"("type": "yarn")", R"("type": "linear")", "rope_scaling.type",
                "linear"}));

TEST(HuggingFace, NotAnObjectAndTooDeep) {
  for (const std::string& text : {std::string("[]"), std::string("3"), std::string(),
                                  std::string(100000, '['), std::string("{\"a\":") + "\xff}"}) {
    EXPECT_THROW(static_cast<void>(parse_hugging_face_config(text, "x.json")), Error);
  }
}

// Parses or throws Error; a spec that parses can be counted or is refused, without a crash.
void survives(const std::string& text) {
  try {
    const ModelSpec spec = parse_hugging_face_config(text, "fuzz.json");
    if (spec.layers <= 64) static_cast<void>(count_parameters(spec));
  } catch (const Error& error) {
    RC_ASSERT(error.code() == ExitCode::kBadInput);
  }
}

RC_GTEST_PROP(HuggingFaceFuzz, AnyBytes, (const std::string& text)) { survives(text); }

RC_GTEST_PROP(HuggingFaceFuzz, ChangedBytesOfAGoodFile, ()) {
  std::string text = *rc::gen::element(
      std::string(kGpt2), std::string(kLlama31), std::string(kLlamaNew), std::string(kMixtral),
      std::string(kQwen2), std::string(kQwen3), std::string(kDeepSeekV3));
  const int changes = *rc::gen::inRange(1, 6);
  for (int i = 0; i < changes && !text.empty(); ++i) {
    const auto at = *rc::gen::inRange<size_t>(0, text.size());
    switch (*rc::gen::inRange(0, 4)) {
      case 0:
        text[at] = *rc::gen::arbitrary<char>();
        break;
      case 1:
        text[at] = *rc::gen::element('0', '9', '-', '"', '{', '}', 'e', '.');
        break;
      case 2:
        text.erase(at, *rc::gen::inRange<size_t>(1, 20));
        break;
      default:
        text.insert(at, *rc::gen::element<std::string>("0", "99999", "null", ",", "[]"));
        break;
    }
  }
  survives(text);
}

TEST(LoadModel, SuggestsTheNearestName) {
  const auto hint = [](const std::string& name) {
    try {
      static_cast<void>(load_model(name));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      EXPECT_THAT(error.what(), HasSubstr("unknown model"));
      return error.hint();
    }
    return std::string("(loaded)");
  };
  EXPECT_THAT(hint("gtp2"), HasSubstr("'gpt2'"));
  EXPECT_THAT(hint("llama3-8B"), HasSubstr("'llama3-8b'"));
  EXPECT_THAT(hint("resnet-50"), HasSubstr("'resnet50'"));
  EXPECT_THAT(hint("mistral7b"), HasSubstr("'mistral-7b'"));
  EXPECT_THAT(hint(""), HasSubstr("plimsoll models"));
  EXPECT_THAT(hint(std::string(5000, 'x')), HasSubstr("plimsoll models"));
}

TEST(LoadModel, ReadsAFile) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("plimsoll-load-model-{}", getpid());
  std::filesystem::create_directories(folder / "my-gpt");
  const std::string path = (folder / "my-gpt" / "config.json").string();
  write_file(path, kGpt2);
  const ModelSpec spec = load_model(path);
  EXPECT_EQ(spec.name, "my-gpt");
  EXPECT_EQ(spec.layers, 12);
  std::filesystem::remove_all(folder);
  EXPECT_THROW(static_cast<void>(load_model(path)), Error);
  EXPECT_THROW(static_cast<void>(load_model("absent.json")), Error);
}

}  // namespace
}  // namespace plimsoll
