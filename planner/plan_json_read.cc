// Plan JSON as it is read, with a check on every field.
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "planner/plan.h"

namespace plimsoll {

namespace {

using Json = nlohmann::ordered_json;

// Reads fields of one JSON object; every mistake names file and key.
class Reader {
 public:
  Reader(const Json& object, std::string file, std::string path)
      : object_(object), file_(std::move(file)), path_(std::move(path)) {
    if (!object_.is_object()) throw fail("", "is not an object");
  }

  template <typename T>
  void get(const char* key, T& into) const {
    if (!object_.contains(key)) return;  // a field of a later version keeps its default
    const Json& value = object_.at(key);
    try {
      if constexpr (std::is_same_v<T, bool>) {
        if (!value.is_boolean()) throw fail(key, "is not true or false");
      } else if constexpr (std::is_integral_v<T>) {
        if (!value.is_number_integer()) throw fail(key, "is not a whole number");
        const bool too_large =
            value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
        const int64_t wide = too_large ? -1 : value.get<int64_t>();
        if (too_large || wide < std::numeric_limits<T>::min() ||
            wide > std::numeric_limits<T>::max()) {
          throw fail(key, "is out of range");
        }
      } else if constexpr (std::is_same_v<T, double>) {
        if (!value.is_number()) throw fail(key, "is not a number");
      }
      into = value.get<T>();
    } catch (const nlohmann::json::exception&) {
      throw fail(key, "has the wrong type");
    }
  }

  template <typename T, typename Parse>
  void get_word(const char* key, T& into, Parse&& parse) const {
    std::string word;
    get(key, word);
    if (!word.empty()) into = parse(word);
  }

  [[nodiscard]] Reader child(const char* key) const {
    if (!object_.contains(key)) throw fail(key, "is missing");
    return {object_.at(key), file_, path_.empty() ? key : path_ + "." + key};
  }
  [[nodiscard]] bool has(const char* key) const { return object_.contains(key); }
  [[nodiscard]] const Json& at(const char* key) const {
    if (!object_.contains(key)) throw fail(key, "is missing");
    return object_.at(key);
  }
  [[nodiscard]] Error fail(const std::string& key, const std::string& what) const {
    const std::string dot = path_.empty() || key.empty() ? "" : ".";
    return bad_input(fmt::format("{}: {}{}{} {}", file_, path_, dot, key, what),
                     "make the plan anew with `plimsoll plan … --json FILE`");
  }

 private:
  const Json& object_;
  std::string file_, path_;
};

ExpertSpec read_experts(const Reader& json) {
  ExpertSpec experts;
  json.get("routed", experts.routed);
  json.get("chosen", experts.chosen);
  json.get("shared", experts.shared);
  json.get("feed_forward", experts.feed_forward);
  json.get("dense_layers", experts.dense_layers);
  json.get("scoring", experts.scoring);
  json.get("weight_scale", experts.weight_scale);
  json.get("renormalise", experts.renormalise);
  json.get("groups", experts.groups);
  json.get("top_groups", experts.top_groups);
  json.get("names", experts.names);
  return experts;
}

LatentAttentionSpec read_latent_attention(const Reader& json) {
  LatentAttentionSpec latent;
  json.get("query_rank", latent.query_rank);
  json.get("kv_rank", latent.kv_rank);
  json.get("nope_dim", latent.nope_dim);
  json.get("rope_dim", latent.rope_dim);
  json.get("value_dim", latent.value_dim);
  return latent;
}

YarnScaling read_yarn(const Reader& json) {
  YarnScaling yarn;
  json.get("factor", yarn.factor);
  json.get("beta_fast", yarn.beta_fast);
  json.get("beta_slow", yarn.beta_slow);
  json.get("mscale", yarn.mscale);
  json.get("mscale_all_dim", yarn.mscale_all_dim);
  json.get("original_context", yarn.original_context);
  return yarn;
}

ModelSpec read_model(const Reader& json) {
  ModelSpec model;
  json.get("name", model.name);
  std::string word;
  json.get("family", word);
  bool known = false;
  for (const Family family : {Family::kMlp, Family::kResNet, Family::kGpt2, Family::kLlama,
                              Family::kMoe, Family::kBert, Family::kVit}) {
    if (family_name(family) == word) {
      model.family = family;
      known = true;
    }
  }
  if (!known) throw json.fail("family", fmt::format("'{}' is not a known family", word));
  json.get("objective", word);
  known = false;
  for (const Objective objective : {Objective::kNextToken, Objective::kMaskedToken,
                                    Objective::kClasses, Objective::kRegression}) {
    if (objective_name(objective) == word) {
      model.objective = objective;
      known = true;
    }
  }
  if (!known) throw json.fail("objective", fmt::format("'{}' is not a known objective", word));
  json.get("layers", model.layers);
  json.get("hidden", model.hidden);
  json.get("heads", model.heads);
  json.get("kv_heads", model.kv_heads);
  json.get("head_dim", model.head_dim);
  json.get("feed_forward", model.feed_forward);
  json.get("vocabulary", model.vocabulary);
  json.get("max_positions", model.max_positions);
  json.get("training_length", model.training_length);
  json.get("tied_embeddings", model.tied_embeddings);
  json.get("norm_epsilon", model.norm_epsilon);
  json.get("rope_theta", model.rope_theta);
  json.get("gelu", model.gelu);
  json.get("initializer_range", model.initializer_range);
  json.get("image_size", model.image_size);
  json.get("channels", model.channels);
  json.get("patch", model.patch);
  json.get("classes", model.classes);
  json.get("stage_blocks", model.stage_blocks);
  json.get("bottleneck", model.bottleneck);
  json.get("small_images", model.small_images);
  json.get("inputs", model.inputs);
  json.get("outputs", model.outputs);
  if (json.has("rope_scaling")) {
    const Reader scaling = json.child("rope_scaling");
    RopeScaling values;
    scaling.get("factor", values.factor);
    scaling.get("low_freq_factor", values.low_freq_factor);
    scaling.get("high_freq_factor", values.high_freq_factor);
    scaling.get("original_context", values.original_context);
    model.rope_scaling = values;
  }
  json.get("attention_bias", model.attention_bias);
  json.get("head_norm", model.head_norm);
  if (json.has("experts")) model.experts = read_experts(json.child("experts"));
  if (json.has("latent_attention")) {
    model.latent_attention = read_latent_attention(json.child("latent_attention"));
  }
  if (json.has("yarn")) model.yarn = read_yarn(json.child("yarn"));
  if (model.layers < 0 || model.layers > 100000) throw json.fail("layers", "is out of range");
  return model;
}

Job read_job(const Reader& json) {
  Job job;
  const auto dtype = [&](const char* key, DType& into) {
    json.get_word(key, into, [&](const std::string& word) {
      const auto parsed = parse_dtype(word);
      if (!parsed) throw json.fail(key, fmt::format("'{}' is not a type", word));
      return *parsed;
    });
  };
  json.get("global_batch", job.global_batch);
  json.get("seq", job.seq);
  dtype("precision", job.precision);
  json.get_word("optimizer", job.optimizer, parse_optimizer);
  dtype("gradient_type", job.gradient_type);
  json.get("master_weights", job.master_weights);
  dtype("state_type", job.state_type);
  json.get("beta1", job.beta1);
  json.get("beta2", job.beta2);
  json.get("epsilon", job.epsilon);
  json.get("momentum", job.momentum);
  json.get("weight_decay", job.weight_decay);
  json.get("decay_all", job.decay_all);
  json.get("clip", job.clip);
  json.get("dropout", job.dropout);
  json.get("eval_batches", job.eval_batches);
  json.get("measure_noise", job.measure_noise);
  json.get("framework", job.framework);
  if (job.eval_batches < 0) throw json.fail("eval_batches", "is negative");
  return job;
}

Strategy read_strategy(const Reader& json, const ModelSpec& model) {
  Strategy s;
  json.get("dp", s.dp);
  json.get("tp", s.tp);
  json.get("pp", s.pp);
  json.get("cp", s.cp);
  json.get("ep", s.ep);
  json.get("zero", s.zero);
  json.get("shard_group", s.shard_group);
  json.get("zero_prefetch", s.zero_prefetch);
  json.get("sequence_parallel", s.sequence_parallel);
  json.get("micro_batch", s.micro_batch);
  json.get("schedule", s.schedule);
  json.get("interleave", s.interleave);
  json.get("stage_bounds", s.stage_bounds);
  json.get("attention", s.attention);
  json.get("loss_chunks", s.loss_chunks);
  json.get("rank_order", s.rank_order);
  const auto word_of = [&](const Json& value) {
    const auto kind = value.is_string() ? parse_recompute(value.get<std::string>()) : std::nullopt;
    if (!kind) throw json.fail("recompute", "is none of none, selective and full");
    return *kind;
  };
  const Json& recompute = json.at("recompute");
  if (recompute.is_array()) {
    for (const Json& one : recompute) s.recompute.push_back(word_of(one));
  } else {  // a plan made by hand may say one word for all layers
    s.recompute.assign(static_cast<size_t>(model.layers), word_of(recompute));
  }
  return s;
}

}  // namespace

Plan parse_plan_json(std::string_view text, const std::string& file) {
  const auto json = parse_json<Json>(text, file);
  const Reader root(json, file, "");
  int version = 0;
  root.get("plimsoll_plan", version);
  if (version != 1) {
    throw root.fail("plimsoll_plan",
                    fmt::format("is {}: this version reads plans of version 1", version));
  }
  Plan plan;
  plan.model = read_model(root.child("model"));
  std::string cluster;
  root.child("cluster").get("text", cluster);
  plan.cluster = parse_cluster(cluster);
  plan.job = read_job(root.child("job"));
  root.get("memory_limit_bytes", plan.memory_limit_bytes);
  plan.strategy = read_strategy(root.child("strategy"), plan.model);
  check_strategy(plan.model, plan.job, plan.strategy);
  if (plan.strategy.num_ranks() != plan.cluster.num_devices()) {
    throw root.fail("strategy", fmt::format("has {} ranks, the cluster {} devices",
                                            plan.strategy.num_ranks(), plan.cluster.num_devices()));
  }
  if (root.has("search")) {
    const Reader counts = root.child("search");
    counts.get("covered", plan.search.covered);
    counts.get("evaluated", plan.search.evaluated);
    counts.get("pruned", plan.search.pruned);
    counts.get("gap", plan.search.gap);
  }
  // The prediction is made anew rather than believed: a plan may be edited by hand.
  plan.predicted = predict(lower_plan(plan.model, plan.cluster, plan.job, plan.strategy),
                           plan.cluster, plan.job);
  return plan;
}

}  // namespace plimsoll
