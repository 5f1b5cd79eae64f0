// What a model is, as data, and its graph for one micro-batch.
#pragma once

#include "models/graph.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

enum class Family : uint8_t { kMlp, kResNet, kGpt2, kLlama, kMoe, kBert, kVit };
[[nodiscard]] std::string_view family_name(Family family);

// What the data set must deliver and what the loss is.
enum class Objective : uint8_t { kNextToken, kMaskedToken, kClasses, kRegression };
[[nodiscard]] std::string_view objective_name(Objective objective);

struct RopeScaling {  // Llama 3.1
  double factor = 8, low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_context = 8192;
};

// Mixture of experts in place of the feed-forward layers: a router chooses a few experts a token;
// shared experts see every token.
struct ExpertSpec {
  int64_t routed = 0;        // experts to choose from
  int64_t chosen = 0;        // a token
  int64_t shared = 0;        // one feed-forward layer that many times an expert's size
  int64_t feed_forward = 0;  // of one expert
  int64_t dense_layers = 0;  // the first layers have a dense feed-forward of ModelSpec's size
  std::string scoring = "softmax";  // or "sigmoid"
  double weight_scale = 1;          // on the weights, which are scaled to a sum of one before
  bool renormalise = true;
  int64_t groups = 1, top_groups = 1;  // experts are chosen inside the best groups
  std::string names = "deepseek";      // of exported tensors; or "mixtral"
};

// Multi-head latent attention (DeepSeek-V2, §2.1): queries, keys and values come up from low ranks.
struct LatentAttentionSpec {
  int64_t query_rank = 0;  // 0: queries are projected directly
  int64_t kv_rank = 0;
  int64_t nope_dim = 0;   // of a query and key head, without position
  int64_t rope_dim = 0;   // of a query head, and of the key part that all heads share
  int64_t value_dim = 0;  // of a value head
};

struct YarnScaling {  // Peng et al. 2023, as DeepSeek uses it
  double factor = 1, beta_fast = 32, beta_slow = 1, mscale = 1, mscale_all_dim = 0;
  int64_t original_context = 4096;
};

// Hyper-parameters; a family uses the ones it needs and leaves the others at 0.
struct ModelSpec {
  std::string name;
  Family family = Family::kMlp;
  Objective objective = Objective::kRegression;
  int64_t layers = 0;  // blocks that repeat (resnet: residual blocks)
  int64_t hidden = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t feed_forward = 0;
  int64_t vocabulary = 0;
  int64_t max_positions = 0;
  int64_t training_length = 0;  // default of --seq
  bool tied_embeddings = false;
  double norm_epsilon = 1e-5;
  double rope_theta = 10000;
  std::optional<RopeScaling> rope_scaling;
  std::string gelu = "tanh";
  double initializer_range = 0.02;
  // Vision: square images. MLP: `inputs` features to `outputs` values.
  int64_t image_size = 0, channels = 0, patch = 0, classes = 0;
  std::vector<int64_t> stage_blocks;  // resnet: {2, 2, 2, 2} or {3, 4, 6, 3}
  bool bottleneck = false;
  bool small_images = false;  // resnet: 3x3 stem without pooling, for images of 32 pixels or fewer
  int64_t inputs = 0, outputs = 0;
  // Variants of llama and moe.
  bool attention_bias = false;        // on queries, keys and values (Qwen2)
  bool head_norm = false;             // RMS norm of each query and key head (Qwen3)
  std::optional<ExpertSpec> experts;  // moe alone
  std::optional<LatentAttentionSpec> latent_attention;  // head_dim is nope_dim + rope_dim
  std::optional<YarnScaling> yarn;                      // with latent attention
};

struct BuildOptions {
  int64_t micro_batch = 1;
  int64_t seq = 0;  // tokens a sequence, text models
  DType float_type = DType::kF32;
  bool training = true;
  SaveRules save_rules;
  double dropout = 0;
  std::string attention = "flash";  // or "naive"
  int64_t loss_chunks = 1;          // > 1: head and loss fused, logits never stored whole
  // Mixture of experts. Dropless when 0; else an expert takes at most ceil(capacity_factor * rows *
  // chosen / routed) of a rank's rows in a micro-batch, and drops the others.
  double capacity_factor = 0;
  // Ranks that share a layer's experts: the graph is that of the first, with routed/expert_parallel
  // experts and exchanges of rows on both sides of them.
  int64_t expert_parallel = 1;
  // Dropless over several ranks: the bound of the rows that one rank's experts receive, over the
  // average. A micro-batch that needs more is an error naming layer and rank. The bound is never
  // above what routing can make (every rank choosing these experts for every row).
  double expert_imbalance = 2;
};

// The forward graph with loss. Throws Error (exit 2) when options do not suit the model (seq beyond
// max_positions of a model with learned positions, chunks outside [1, rows], zero sizes, …).
[[nodiscard]] Graph build_model(const ModelSpec& spec, const BuildOptions& options);

// Parameters of the model, counted over its graph.
[[nodiscard]] int64_t count_parameters(const ModelSpec& spec);

// Those that one token meets: of routed experts, the chosen ones. Embedding and head are counted.
// FLOPs of a mixture of experts are reported by this number: 6 active a token.
[[nodiscard]] int64_t active_parameters(const ModelSpec& spec);
// The same of a graph of the model.
[[nodiscard]] int64_t active_parameters(const Graph& graph, const ModelSpec& spec);

// The width h of attention's 12 L s h FLOPs a token: heads times head size, or with different
// sizes of keys and values their mean.
[[nodiscard]] int64_t attention_width(const ModelSpec& spec);

// Tokens that the layers see of one sample: `seq`, for images the patches and the class token; 0
// for models without sequences.
[[nodiscard]] int64_t sequence_tokens(const ModelSpec& spec, int64_t seq);

// A built-in name ("gpt2", "llama3-8b", …) or the path of a Hugging Face config.json. Throws Error
// (exit 2) with the nearest built-in name, or with the file, key and what to do.
[[nodiscard]] ModelSpec load_model(const std::string& name_or_path);
[[nodiscard]] const std::vector<ModelSpec>& builtin_models();

// A Hugging Face config.json of model_type gpt2, llama, mistral, mixtral, qwen2, qwen3 or
// deepseek_v3 (without its multi-token-prediction modules).
[[nodiscard]] ModelSpec parse_hugging_face_config(std::string_view json, const std::string& path);

}  // namespace plimsoll
