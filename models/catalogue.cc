// The built-in models: published shapes, and tiny ones for tests and demonstrations.
#include "base/error.h"
#include "base/files.h"
#include "base/spelling.h"
#include "models/model.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <system_error>

namespace plimsoll {

namespace {

// Feed-forward four times the hidden size, byte-pair vocabulary of GPT-2.
ModelSpec gpt2(const std::string& name, int64_t layers, int64_t hidden, int64_t heads,
               int64_t positions = 1024, int64_t vocabulary = 50257) {
  ModelSpec spec;
  spec.name = name;
  spec.family = Family::kGpt2;
  spec.objective = Objective::kNextToken;
  spec.layers = layers;
  spec.hidden = hidden;
  spec.heads = spec.kv_heads = heads;
  spec.head_dim = hidden / heads;
  spec.feed_forward = 4 * hidden;
  spec.vocabulary = vocabulary;
  spec.max_positions = spec.training_length = positions;
  spec.tied_embeddings = true;
  return spec;
}

struct LlamaSizes {
  int64_t layers, hidden, feed_forward, heads, kv_heads, vocabulary, positions, length;
  double theta;
};

ModelSpec llama(const std::string& name, const LlamaSizes& sizes) {
  ModelSpec spec;
  spec.name = name;
  spec.family = Family::kLlama;
  spec.objective = Objective::kNextToken;
  spec.layers = sizes.layers;
  spec.hidden = sizes.hidden;
  spec.heads = sizes.heads;
  spec.kv_heads = sizes.kv_heads;
  spec.head_dim = sizes.hidden / sizes.heads;
  spec.feed_forward = sizes.feed_forward;
  spec.vocabulary = sizes.vocabulary;
  spec.max_positions = sizes.positions;
  spec.training_length = sizes.length;
  spec.rope_theta = sizes.theta;
  return spec;
}

// Llama 3.1 and later: frequencies stretched for a context of 128k tokens.
ModelSpec scaled(ModelSpec spec, double factor, bool tied) {
  spec.rope_scaling = RopeScaling{.factor = factor};
  spec.tied_embeddings = tied;
  return spec;
}

// Llama with experts in place of the feed-forward layers.
ModelSpec mixtral(const std::string& name, const LlamaSizes& sizes, int64_t experts) {
  ModelSpec spec = llama(name, sizes);
  spec.family = Family::kMoe;
  spec.experts = ExpertSpec{
      .routed = experts, .chosen = 2, .feed_forward = sizes.feed_forward, .names = "mixtral"};
  return spec;
}

ModelSpec with_latent_attention(ModelSpec spec, const LatentAttentionSpec& latent) {
  spec.latent_attention = latent;
  spec.head_dim = latent.nope_dim + latent.rope_dim;
  return spec;
}

// As pre-trained at 4096 tokens: without YaRN, and without the multi-token-prediction module.
ModelSpec deepseek_v3() {
  ModelSpec spec = llama("deepseek-v3", {61, 7168, 18432, 128, 128, 129280, 4096, 4096, 1e4});
  spec.family = Family::kMoe;
  spec.norm_epsilon = 1e-6;
  spec.initializer_range = 0.006;
  spec.experts = ExpertSpec{.routed = 256,
                            .chosen = 8,
                            .shared = 1,
                            .feed_forward = 2048,
                            .dense_layers = 3,
                            .scoring = "sigmoid",
                            .weight_scale = 2.5,
                            .groups = 8,
                            .top_groups = 4};
  return with_latent_attention(std::move(spec), {1536, 512, 128, 64, 128});
}

ModelSpec deepseek_tiny() {
  ModelSpec spec = llama("deepseek-tiny", {3, 64, 192, 4, 4, 256, 128, 64, 1e4});
  spec.family = Family::kMoe;
  spec.experts = ExpertSpec{.routed = 8,
                            .chosen = 2,
                            .shared = 1,
                            .feed_forward = 48,
                            .dense_layers = 1,
                            .scoring = "sigmoid",
                            .weight_scale = 2.5,
                            .groups = 4,
                            .top_groups = 2};
  return with_latent_attention(std::move(spec), {24, 16, 16, 8, 12});
}

// Norms of the query and key heads, whose size is independent of the hidden one.
ModelSpec qwen3(const std::string& name, const LlamaSizes& sizes, int64_t head_dim, bool tied) {
  ModelSpec spec = llama(name, sizes);
  spec.head_dim = head_dim;
  spec.head_norm = true;
  spec.norm_epsilon = 1e-6;
  spec.tied_embeddings = tied;
  return spec;
}

ModelSpec bert(const std::string& name, int64_t layers, int64_t hidden, int64_t heads,
               int64_t vocabulary = 30522, int64_t positions = 512) {
  ModelSpec spec = gpt2(name, layers, hidden, heads, positions, vocabulary);
  spec.family = Family::kBert;
  spec.objective = Objective::kMaskedToken;
  spec.norm_epsilon = 1e-12;
  spec.gelu = "erf";
  return spec;
}

ModelSpec vit(const std::string& name, int64_t layers, int64_t hidden, int64_t heads,
              int64_t image_size, int64_t channels, int64_t patch, int64_t classes) {
  ModelSpec spec = gpt2(name, layers, hidden, heads, 0, 0);
  spec.family = Family::kVit;
  spec.objective = Objective::kClasses;
  spec.norm_epsilon = 1e-6;
  spec.gelu = "erf";
  spec.tied_embeddings = false;
  spec.image_size = image_size;
  spec.channels = channels;
  spec.patch = patch;
  spec.classes = classes;
  return spec;
}

ModelSpec resnet(const std::string& name, std::vector<int64_t> stage_blocks, bool bottleneck) {
  ModelSpec spec;
  spec.name = name;
  spec.family = Family::kResNet;
  spec.objective = Objective::kClasses;
  spec.layers = std::accumulate(stage_blocks.begin(), stage_blocks.end(), int64_t{0});
  spec.hidden = 64;
  spec.image_size = 224;
  spec.channels = 3;
  spec.classes = 1000;
  spec.stage_blocks = std::move(stage_blocks);
  spec.bottleneck = bottleneck;
  return spec;
}

// For images of 8x8 grey pixels (handwritten digits).
ModelSpec resnet_tiny() {
  ModelSpec spec = resnet("resnet-tiny", {1, 1, 1}, false);
  spec.hidden = 16;
  spec.image_size = 8;
  spec.channels = 1;
  spec.classes = 10;
  spec.small_images = true;
  return spec;
}

ModelSpec mlp(const std::string& name, int64_t layers, int64_t inputs, int64_t hidden,
              int64_t outputs) {
  ModelSpec spec;
  spec.name = name;
  spec.family = Family::kMlp;
  spec.objective = Objective::kRegression;
  spec.layers = layers;
  spec.inputs = inputs;
  spec.hidden = hidden;
  spec.outputs = outputs;
  return spec;
}

std::vector<ModelSpec> make_catalogue() {
  return {
      gpt2("gpt2", 12, 768, 12),
      gpt2("gpt2-medium", 24, 1024, 16),
      gpt2("gpt2-large", 36, 1280, 20),
      gpt2("gpt2-xl", 48, 1600, 25),
      gpt2("gpt3-125m", 12, 768, 12, 2048),
      gpt2("gpt3-6.7b", 32, 4096, 32, 2048),
      gpt2("gpt3-175b", 96, 12288, 96, 2048),
      llama("llama2-7b", {32, 4096, 11008, 32, 32, 32000, 4096, 4096, 1e4}),
      llama("llama2-13b", {40, 5120, 13824, 40, 40, 32000, 4096, 4096, 1e4}),
      llama("llama2-70b", {80, 8192, 28672, 64, 8, 32000, 4096, 4096, 1e4}),
      llama("llama3-8b", {32, 4096, 14336, 32, 8, 128256, 8192, 8192, 5e5}),
      llama("llama3-70b", {80, 8192, 28672, 64, 8, 128256, 8192, 8192, 5e5}),
      scaled(llama("llama3-405b", {126, 16384, 53248, 128, 8, 128256, 131072, 8192, 5e5}), 8,
             false),
      scaled(llama("llama3.2-1b", {16, 2048, 8192, 32, 8, 128256, 131072, 8192, 5e5}), 32, true),
      scaled(llama("llama3.2-3b", {28, 3072, 8192, 24, 8, 128256, 131072, 8192, 5e5}), 32, true),
      // Version 0.2, which has no sliding window.
      llama("mistral-7b", {32, 4096, 14336, 32, 8, 32000, 32768, 8192, 1e6}),
      qwen3("qwen3-8b", {36, 4096, 12288, 32, 8, 151936, 40960, 8192, 1e6}, 128, false),
      mixtral("mixtral-8x7b", {32, 4096, 14336, 32, 8, 32000, 32768, 8192, 1e6}, 8),
      mixtral("mixtral-8x22b", {56, 6144, 16384, 48, 8, 32768, 65536, 8192, 1e6}, 8),
      deepseek_v3(),
      bert("bert-base", 12, 768, 12),
      bert("bert-large", 24, 1024, 16),
      vit("vit-b-16", 12, 768, 12, 224, 3, 16, 1000),
      vit("vit-l-16", 24, 1024, 16, 224, 3, 16, 1000),
      resnet("resnet18", {2, 2, 2, 2}, false),
      resnet("resnet50", {3, 4, 6, 3}, true),
      mlp("mlp", 4, 64, 256, 8),
      gpt2("gpt2-tiny", 2, 64, 4, 64, 256),
      gpt2("gpt2-bytes", 8, 160, 5, 256, 256),
      llama("llama-tiny", {2, 64, 192, 4, 2, 256, 128, 64, 1e4}),
      qwen3("qwen3-tiny", {2, 64, 192, 4, 2, 256, 128, 64, 1e4}, 24, true),
      mixtral("mixtral-tiny", {2, 64, 96, 4, 2, 256, 128, 64, 1e4}, 4),
      deepseek_tiny(),
      bert("bert-tiny", 2, 64, 4, 256, 64),
      vit("vit-tiny", 2, 64, 4, 8, 1, 2, 10),
      resnet_tiny(),
      mlp("mlp-tiny", 2, 8, 32, 4),
  };
}

constexpr int64_t kMaxConfigBytes = int64_t{1} << 24;
constexpr size_t kMaxNameLength = 128;  // beyond it no spelling is compared

}  // namespace

const std::vector<ModelSpec>& builtin_models() {
  static const std::vector<ModelSpec> all = make_catalogue();
  return all;
}

ModelSpec load_model(const std::string& name_or_path) {
  for (const ModelSpec& spec : builtin_models()) {
    if (spec.name == name_or_path) return spec;
  }
  std::error_code ignored;
  if (name_or_path.ends_with(".json") || std::filesystem::is_regular_file(name_or_path, ignored)) {
    return parse_hugging_face_config(read_file(name_or_path, kMaxConfigBytes), name_or_path);
  }
  const std::string list = "`plimsoll models` lists all; the path of a config.json works too";
  std::vector<std::string> names;
  for (const ModelSpec& spec : builtin_models()) names.push_back(spec.name);
  throw bad_input(fmt::format("unknown model '{}'", name_or_path.substr(0, kMaxNameLength)),
                  fmt::format("{} {}", did_you_mean(name_or_path, names), list));
}

}  // namespace plimsoll
