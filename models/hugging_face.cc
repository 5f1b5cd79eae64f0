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

void read_rope(const Config& config, ModelSpec& spec) {
  spec.rope_theta = config.positive("rope_theta", 10000);
  if (config.has("rope_scaling")) {
    spec.rope_scaling = read_rope_scaling(config.object("rope_scaling"));
  }
  if (config.has("rope_parameters")) {  // newer files keep both here
    const Config rope = config.object("rope_parameters");
    spec.rope_theta = rope.positive("rope_theta", spec.rope_theta);
    spec.rope_scaling = read_rope_scaling(rope);
  }
}

ModelSpec read_llama(const Config& config) {
  ModelSpec spec;
  spec.family = Family::kLlama;
  spec.layers = config.num_layers("num_hidden_layers");
  spec.hidden = config.size("hidden_size");
  spec.feed_forward = config.size("intermediate_size");
  spec.heads = config.size("num_attention_heads");
  spec.kv_heads = config.size("num_key_value_heads", spec.heads);
  require_divides(config, "num_key_value_heads", spec.kv_heads, "num_attention_heads", spec.heads);
  if (!config.has("head_dim")) {
    require_divides(config, "num_attention_heads", spec.heads, "hidden_size", spec.hidden);
  }
  spec.head_dim = config.size("head_dim", spec.hidden / spec.heads);
  if (spec.head_dim % 2 != 0) {
    throw config.error(
        config.has("head_dim") ? "head_dim" : "num_attention_heads",
        fmt::format("gives heads of {}: rotary positions need an even size", spec.head_dim));
  }
  spec.max_positions = config.size("max_position_embeddings", 2048);
  spec.norm_epsilon = config.positive("rms_norm_eps", 1e-6);
  spec.tied_embeddings = config.flag("tie_word_embeddings", false);
  config.require_word("hidden_act", "silu", {"silu", "swish"}, "only silu is supported");
  config.require_flag("attention_bias", false, "biases in attention are not supported");
  config.require_flag("mlp_bias", false, "biases in the feed-forward layers are not supported");
  if (config.has("sliding_window")) {
    throw config.error("sliding_window", "is set: attention over a window is not supported",
                       "set it to null to plan with attention over the whole sequence");
  }
  read_rope(config, spec);
  read_common(config, spec);
  return spec;
}

using Reader = ModelSpec (*)(const Config&);

const std::map<std::string, Reader>& readers() {
  static const std::map<std::string, Reader> all{{"gpt2", read_gpt2}, {"llama", read_llama}};
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
