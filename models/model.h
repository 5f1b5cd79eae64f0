// What a model is, as data, and its graph for one micro-batch.
#pragma once

#include "models/graph.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

enum class Family : uint8_t { kMlp, kResNet, kGpt2, kLlama, kBert, kVit };
[[nodiscard]] std::string_view family_name(Family family);

// What the data set must deliver and what the loss is.
enum class Objective : uint8_t { kNextToken, kMaskedToken, kClasses, kRegression };
[[nodiscard]] std::string_view objective_name(Objective objective);

struct RopeScaling {  // Llama 3.1
  double factor = 8, low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_context = 8192;
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
};

// The forward graph with loss. Throws Error (exit 2) when options do not suit the model (seq beyond
// max_positions of a model with learned positions, chunks outside [1, rows], zero sizes, …).
[[nodiscard]] Graph build_model(const ModelSpec& spec, const BuildOptions& options);

// Parameters of the model, counted over its graph.
[[nodiscard]] int64_t count_parameters(const ModelSpec& spec);

// A built-in name ("gpt2", "llama3-8b", …) or the path of a Hugging Face config.json. Throws Error
// (exit 2) with the nearest built-in name, or with the file, key and what to do.
[[nodiscard]] ModelSpec load_model(const std::string& name_or_path);
[[nodiscard]] const std::vector<ModelSpec>& builtin_models();

// A Hugging Face config.json of model_type gpt2 or llama.
[[nodiscard]] ModelSpec parse_hugging_face_config(std::string_view json, const std::string& path);

}  // namespace plimsoll
