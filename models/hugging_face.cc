// A Hugging Face config.json becomes a ModelSpec. A setting that would change the mathematics and
// is not supported is refused with its key, never ignored.
#include "base/error.h"
#include "base/json.h"
#include "models/model.h"

#include <algorithm>
#include <filesystem>
#include <map>

namespace plimsoll {

namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxSize = int64_t{1} << 40;
constexpr int64_t kMaxLayers = 100000;

// Typed access to an object of the file; every error names file and key.
class Config {
 public:
  Config(const Json& object, const std::string& path, std::string prefix = "")
      : object_(object), path_(path), prefix_(std::move(prefix)) {}

  [[nodiscard]] Error error(const std::string& key, const std::string& message,
                            const std::string& hint = "") const {
    return bad_input(fmt::format("{}: key '{}{}' {}", path_, prefix_, key, message), hint);
  }

  // Present and not null.
  [[nodiscard]] bool has(const std::string& key) const {
    const auto at = object_.find(key);
    return at != object_.end() && !at->is_null();
  }
  [[nodiscard]] const Json& at(const std::string& key) const {
    if (!has(key)) throw error(key, "is missing");
    return *object_.find(key);
  }

  [[nodiscard]] int64_t size(const std::string& key, int64_t otherwise) const {
    return has(key) ? size(key) : otherwise;
  }
  // Like a size, but 0 and null mean none.
  [[nodiscard]] int64_t count(const std::string& key, int64_t otherwise) const {
    if (is_null(key)) return 0;
    if (!has(key)) return otherwise;
    return at(key) == 0 ? 0 : size(key);
  }
  // Layers are looped over, so their bound is far lower.
  [[nodiscard]] int64_t num_layers(const std::string& key) const {
    const int64_t layers = size(key);
    if (layers > kMaxLayers) {
      throw error(key, fmt::format("must be in [1, {}], not {}", kMaxLayers, layers));
    }
    return layers;
  }
  [[nodiscard]] int64_t size(const std::string& key) const {
    const Json& value = at(key);
    if (!value.is_number_integer()) {
      throw error(key, fmt::format("must be an integer, not {}", text(value)));
    }
    // Unsigned values beyond int64_t would wrap.
    const bool huge = value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{kMaxSize};
    if (huge || value.get<int64_t>() <= 0 || value.get<int64_t>() > kMaxSize) {
      throw error(key, fmt::format("must be in [1, {}], not {}", kMaxSize, text(value)));
    }
    return value.get<int64_t>();
  }
  [[nodiscard]] double positive(const std::string& key, double otherwise) const {
    if (!has(key)) return otherwise;
    return positive(key);
  }
  [[nodiscard]] double positive(const std::string& key) const {
    const Json& value = at(key);
    if (!value.is_number()) throw error(key, fmt::format("must be a number, not {}", text(value)));
    const double number = value.get<double>();
    if (!(number > 0) || number > 1e300) {
      throw error(key, fmt::format("must be positive and finite, not {}", text(value)));
    }
    return number;
  }
  [[nodiscard]] bool flag(const std::string& key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!at(key).is_boolean()) {
      throw error(key, fmt::format("must be true or false, not {}", text(at(key))));
    }
    return at(key).get<bool>();
  }
  [[nodiscard]] std::string word(const std::string& key, const std::string& otherwise) const {
    if (!has(key)) return otherwise;
    if (!at(key).is_string())
      throw error(key, fmt::format("must be a string, not {}", text(at(key))));
    return at(key).get<std::string>();
  }
  [[nodiscard]] Config object(const std::string& key) const {
    if (!at(key).is_object()) {
      throw error(key, fmt::format("must be an object, not {}", text(at(key))));
    }
    return {at(key), path_, prefix_ + key + "."};
  }

  // Written as null, which differs from absent where the class has a default.
  [[nodiscard]] bool is_null(const std::string& key) const {
    const auto at = object_.find(key);
    return at != object_.end() && at->is_null();
  }
  void require_zero(const std::string& key, const std::string& why) const {
    if (has(key) && !(at(key).is_number() && at(key).get<double>() == 0)) {
      throw error(key, fmt::format("is {}: {}", text(at(key)), why), "set it to 0");
    }
  }

  // Refuses any value of a flag but the one that Plimsoll implements.
  void require_flag(const std::string& key, bool value, const std::string& why) const {
    if (flag(key, value) != value) {
      throw error(key, fmt::format("is {}: {}", value ? "false" : "true", why),
                  fmt::format("set it to {} to plan without it", value));
    }
  }
  void require_word(const std::string& key, const std::string& fallback,
                    std::initializer_list<std::string_view> known, const std::string& why) const {
    const std::string value = word(key, fallback);
    if (std::find(known.begin(), known.end(), value) == known.end()) {
      throw error(key, fmt::format("is '{}': {}", clip(value), why));
    }
  }

 private:
  static std::string clip(std::string value) {
    if (value.size() > 60) value = value.substr(0, 60) + "…";
    return value;
  }
  static std::string text(const Json& value) {
    return clip(value.dump(-1, ' ', true, Json::error_handler_t::replace));
  }

  const Json& object_;
  const std::string& path_;
  std::string prefix_;
};

void require_divides(const Config& config, const std::string& part_key, int64_t part,
                     const std::string& whole_key, int64_t whole) {
  if (whole % part != 0) {
    throw config.error(part_key,
                       fmt::format("is {}, which does not divide {} {}", part, whole_key, whole));
  }
}

void read_common(const Config& config, ModelSpec& spec) {
  spec.objective = Objective::kNextToken;
  spec.vocabulary = config.size("vocab_size");
  spec.initializer_range = config.positive("initializer_range", 0.02);
  spec.training_length = std::min<int64_t>(spec.max_positions, 8192);
}

ModelSpec read_gpt2(const Config& config) {
  ModelSpec spec;
  spec.family = Family::kGpt2;
  spec.layers = config.num_layers("n_layer");
  spec.hidden = config.size("n_embd");
  spec.heads = spec.kv_heads = config.size("n_head");
  require_divides(config, "n_head", spec.heads, "n_embd", spec.hidden);
  spec.head_dim = spec.hidden / spec.heads;
  spec.feed_forward = config.size("n_inner", 4 * spec.hidden);
  spec.max_positions = config.has("n_positions") || !config.has("n_ctx")
                           ? config.size("n_positions")
                           : config.size("n_ctx");
  spec.norm_epsilon = config.positive("layer_norm_epsilon", 1e-5);
  spec.tied_embeddings = config.flag("tie_word_embeddings", true);
  const std::string activation = config.word("activation_function", "gelu_new");
  config.require_word("activation_function", "gelu_new",
                      {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu"},
                      "only gelu_new, gelu_pytorch_tanh, gelu_fast and gelu are supported");
  spec.gelu = activation == "gelu" ? "erf" : "tanh";
  config.require_flag("scale_attn_weights", true, "unscaled attention is not supported");
  config.require_flag("scale_attn_by_inverse_layer_idx", false,
                      "scaling attention by layer is not supported");
  config.require_flag("reorder_and_upcast_attn", false,
                      "attention in another precision than the model's is not supported");
  config.require_flag("add_cross_attention", false, "cross-attention is not supported");
  read_common(config, spec);
  return spec;
}

std::optional<RopeScaling> read_rope_scaling(const Config& rope) {
  const std::string key = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.word(key, "default");
  if (rope.positive("partial_rotary_factor", 1) != 1) {
    throw rope.error("partial_rotary_factor", "is not 1: partial rotation is not supported");
  }
  if (type == "default") return std::nullopt;
  rope.require_word(key, "default", {"llama3"}, "only llama3 and default scaling are supported");
  RopeScaling scaling{.factor = rope.positive("factor"),
                      .low_freq_factor = rope.positive("low_freq_factor"),
                      .high_freq_factor = rope.positive("high_freq_factor"),
                      .original_context = rope.size("original_max_position_embeddings")};
  if (scaling.factor < 1) throw rope.error("factor", "must be at least 1");
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    throw rope.error("high_freq_factor", "must exceed low_freq_factor");
  }
  return scaling;
}

void read_rope(const Config& config, double theta, ModelSpec& spec) {
  spec.rope_theta = config.positive("rope_theta", theta);
  if (config.has("rope_scaling")) {
    spec.rope_scaling = read_rope_scaling(config.object("rope_scaling"));
  }
  if (config.has("rope_parameters")) {  // newer files keep both here
    const Config rope = config.object("rope_parameters");
    spec.rope_theta = rope.positive("rope_theta", spec.rope_theta);
    spec.rope_scaling = read_rope_scaling(rope);
  }
}

// What the classes that share Llama's keys take for absent ones.
struct LlamaDefaults {
  int64_t kv_heads = 0;  // 0: as many as query heads
  int64_t head_dim = 0;  // 0: hidden size over heads
  int64_t positions = 2048;
  double epsilon = 1e-6;
  double theta = 10000;
};

ModelSpec read_llama_shape(const Config& config, const LlamaDefaults& defaults) {
  ModelSpec spec;
  spec.family = Family::kLlama;
  spec.layers = config.num_layers("num_hidden_layers");
  spec.hidden = config.size("hidden_size");
  spec.feed_forward = config.size("intermediate_size");
  spec.heads = config.size("num_attention_heads");
  const int64_t kv_heads = config.is_null("num_key_value_heads") ? 0 : defaults.kv_heads;
  spec.kv_heads = config.size("num_key_value_heads", kv_heads > 0 ? kv_heads : spec.heads);
  require_divides(config, "num_key_value_heads", spec.kv_heads, "num_attention_heads", spec.heads);
  const int64_t head_dim = config.is_null("head_dim") ? 0 : defaults.head_dim;
  if (!config.has("head_dim") && head_dim == 0) {
    require_divides(config, "num_attention_heads", spec.heads, "hidden_size", spec.hidden);
  }
  spec.head_dim = config.size("head_dim", head_dim > 0 ? head_dim : spec.hidden / spec.heads);
  if (spec.head_dim % 2 != 0) {
    throw config.error(
        config.has("head_dim") ? "head_dim" : "num_attention_heads",
        fmt::format("gives heads of {}: rotary positions need an even size", spec.head_dim));
  }
  spec.max_positions = config.size("max_position_embeddings", defaults.positions);
  spec.norm_epsilon = config.positive("rms_norm_eps", defaults.epsilon);
  spec.tied_embeddings = config.flag("tie_word_embeddings", false);
  config.require_word("hidden_act", "silu", {"silu", "swish"}, "only silu is supported");
  config.require_flag("mlp_bias", false, "biases in the feed-forward layers are not supported");
  read_rope(config, defaults.theta, spec);
  read_common(config, spec);
  return spec;
}

void refuse_window(const Config& config) {
  if (config.has("sliding_window")) {
    throw config.error("sliding_window", "is set: attention over a window is not supported",
                       "set it to null to plan with attention over the whole sequence");
  }
}

void refuse_attention_bias(const Config& config) {
  config.require_flag("attention_bias", false, "biases in attention are not supported");
}

ModelSpec read_llama(const Config& config) {
  refuse_attention_bias(config);
  refuse_window(config);
  return read_llama_shape(config, {});
}

ModelSpec read_mistral(const Config& config) {
  refuse_attention_bias(config);
  refuse_window(config);
  if (!config.is_null("sliding_window")) {
    throw config.error("sliding_window",
                       "is missing, which means 4096: attention over a window is not supported",
                       "set it to null to plan with attention over the whole sequence");
  }
  return read_llama_shape(config, {.kv_heads = 8, .positions = 131072});
}

ModelSpec read_mixtral(const Config& config) {
  refuse_attention_bias(config);
  refuse_window(config);
  config.require_zero("router_jitter_noise", "noise on the router is not supported");
  config.require_flag("output_router_logits", false, "the auxiliary loss is not supported");
  ModelSpec spec =
      read_llama_shape(config, {.kv_heads = 8, .positions = 131072, .epsilon = 1e-5, .theta = 1e6});
  spec.family = Family::kMoe;
  spec.experts = ExpertSpec{.routed = config.size("num_local_experts", 8),
                            .chosen = config.size("num_experts_per_tok", 2),
                            .feed_forward = spec.feed_forward,
                            .names = "mixtral"};
  return spec;
}

// The window of Qwen's files is only in force with a flag, or in layers that are named.
void refuse_qwen_window(const Config& config) {
  config.require_flag("use_sliding_window", false, "attention over a window is not supported");
  if (!config.has("layer_types")) return;
  const Json& types = config.at("layer_types");
  const bool full = types.is_array() && std::all_of(types.begin(), types.end(), [](const Json& t) {
                      return t == "full_attention";
                    });
  if (!full) throw config.error("layer_types", "must be a list of full_attention alone");
}

ModelSpec read_qwen2(const Config& config) {
  refuse_qwen_window(config);
  ModelSpec spec = read_llama_shape(config, {.positions = 32768});
  spec.attention_bias = true;
  return spec;
}

ModelSpec read_qwen3(const Config& config) {
  refuse_qwen_window(config);
  refuse_attention_bias(config);  // Qwen3 would put one on the output projection too
  ModelSpec spec = read_llama_shape(config, {.head_dim = 128, .positions = 32768});
  spec.head_norm = true;
  return spec;
}

std::optional<YarnScaling> read_yarn(const Config& rope) {
  const std::string key = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.word(key, "default");
  if (type == "default") return std::nullopt;
  rope.require_word(key, "default", {"yarn"}, "only yarn and default scaling are supported");
  YarnScaling yarn{.factor = rope.positive("factor"),
                   .beta_fast = rope.positive("beta_fast", 32),
                   .beta_slow = rope.positive("beta_slow", 1),
                   .mscale = rope.positive("mscale", 1),
                   .mscale_all_dim = rope.positive("mscale_all_dim", 0),
                   .original_context = rope.size("original_max_position_embeddings", 4096)};
  if (yarn.factor < 1) throw rope.error("factor", "must be at least 1");
  return yarn;
}

ExpertSpec read_deepseek_experts(const Config& config) {
  ExpertSpec experts{.routed = config.size("n_routed_experts", 256),
                     .chosen = config.size("num_experts_per_tok", 8),
                     .shared = config.count("n_shared_experts", 1),
                     .feed_forward = config.size("moe_intermediate_size", 2048),
                     .dense_layers = config.count("first_k_dense_replace", 3),
                     .scoring = config.word("scoring_func", "sigmoid"),
                     .weight_scale = config.positive("routed_scaling_factor", 2.5),
                     .renormalise = config.flag("norm_topk_prob", true),
                     .groups = config.size("n_group", 8),
                     .top_groups = config.size("topk_group", 4)};
  config.require_word("scoring_func", "sigmoid", {"sigmoid", "softmax"},
                      "only sigmoid and softmax are supported");
  config.require_word("topk_method", "noaux_tc", {"noaux_tc"}, "only noaux_tc is supported");
  if (config.size("moe_layer_freq", 1) != 1) {
    throw config.error("moe_layer_freq", "is not 1: dense layers in between are not supported");
  }
  return experts;
}

// Without the multi-token-prediction modules (num_nextn_predict_layers), which are a training aid
// beside the model.
ModelSpec read_deepseek_v3(const Config& config) {
  refuse_attention_bias(config);
  config.require_word("hidden_act", "silu", {"silu", "swish"}, "only silu is supported");
  ModelSpec spec;
  spec.family = Family::kMoe;
  spec.layers = config.num_layers("num_hidden_layers");
  spec.hidden = config.size("hidden_size");
  spec.feed_forward = config.size("intermediate_size");
  spec.heads = spec.kv_heads = config.size("num_attention_heads");
  if (config.size("num_key_value_heads", spec.heads) != spec.heads) {
    throw config.error("num_key_value_heads", "must equal num_attention_heads");
  }
  const bool direct = config.is_null("q_lora_rank");
  const LatentAttentionSpec latent{.query_rank = direct ? 0 : config.size("q_lora_rank", 1536),
                                   .kv_rank = config.size("kv_lora_rank", 512),
                                   .nope_dim = config.size("qk_nope_head_dim", 128),
                                   .rope_dim = config.size("qk_rope_head_dim", 64),
                                   .value_dim = config.size("v_head_dim", 128)};
  if (latent.rope_dim % 2 != 0) throw config.error("qk_rope_head_dim", "must be even");
  spec.latent_attention = latent;
  spec.head_dim = checked_add(latent.nope_dim, latent.rope_dim);
  spec.experts = read_deepseek_experts(config);
  spec.max_positions = config.size("max_position_embeddings", 4096);
  spec.norm_epsilon = config.positive("rms_norm_eps", 1e-6);
  spec.tied_embeddings = config.flag("tie_word_embeddings", false);
  spec.rope_theta = config.positive("rope_theta", 10000);
  if (config.has("rope_scaling")) spec.yarn = read_yarn(config.object("rope_scaling"));
  if (config.has("rope_parameters")) {
    const Config rope = config.object("rope_parameters");
    spec.rope_theta = rope.positive("rope_theta", spec.rope_theta);
    spec.yarn = read_yarn(rope);
  }
  read_common(config, spec);
  return spec;
}

using Reader = ModelSpec (*)(const Config&);

const std::map<std::string, Reader>& readers() {
  static const std::map<std::string, Reader> all{{"deepseek_v3", read_deepseek_v3},
                                                 {"gpt2", read_gpt2},
                                                 {"llama", read_llama},
                                                 {"mistral", read_mistral},
                                                 {"mixtral", read_mixtral},
                                                 {"qwen2", read_qwen2},
                                                 {"qwen3", read_qwen3}};
  return all;
}

// "…/name/config.json" is a checkout of the model `name`.
std::string name_from_path(const std::string& path) {
  const std::filesystem::path file(path);
  if (file.stem() == "config" && file.has_parent_path()) {
    const std::string folder = file.parent_path().filename().string();
    if (!folder.empty() && folder != "." && folder != "..") return folder;
  }
  return file.stem().string();
}

}  // namespace

ModelSpec parse_hugging_face_config(std::string_view json, const std::string& path) {
  const auto root = parse_json<Json>(json, path);
  if (!root.is_object()) throw bad_input(fmt::format("{}: must hold a JSON object", path));
  const Config config(root, path);
  const std::string type = config.word("model_type", "");
  std::string known;
  for (const auto& [name, reader] : readers()) known += (known.empty() ? "" : ", ") + name;
  if (type.empty()) throw config.error("model_type", "is missing", "known types: " + known);
  const auto reader = readers().find(type);
  if (reader == readers().end()) {
    throw config.error("model_type",
                       fmt::format("is '{}', which is not supported", type.substr(0, 60)),
                       "known types: " + known);
  }
  ModelSpec spec = reader->second(config);
  spec.name = name_from_path(path);
  return spec;
}

}  // namespace plimsoll
