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
                "rope_parameters", "an object"}));

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
  std::string text =
      *rc::gen::element(std::string(kGpt2), std::string(kLlama31), std::string(kLlamaNew));
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
