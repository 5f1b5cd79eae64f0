// Plan JSON: written whole, read with a check on every field.
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "planner/plan.h"

namespace plimsoll {

namespace {

using Json = nlohmann::ordered_json;

Json experts_json(const ExpertSpec& experts) {
  return {{"routed", experts.routed},
          {"chosen", experts.chosen},
          {"shared", experts.shared},
          {"feed_forward", experts.feed_forward},
          {"dense_layers", experts.dense_layers},
          {"scoring", experts.scoring},
          {"weight_scale", experts.weight_scale},
          {"renormalise", experts.renormalise},
          {"groups", experts.groups},
          {"top_groups", experts.top_groups},
          {"names", experts.names}};
}

Json latent_attention_json(const LatentAttentionSpec& latent) {
  return {{"query_rank", latent.query_rank},
          {"kv_rank", latent.kv_rank},
          {"nope_dim", latent.nope_dim},
          {"rope_dim", latent.rope_dim},
          {"value_dim", latent.value_dim}};
}

Json yarn_json(const YarnScaling& yarn) {
  return {{"factor", yarn.factor},
          {"beta_fast", yarn.beta_fast},
          {"beta_slow", yarn.beta_slow},
          {"mscale", yarn.mscale},
          {"mscale_all_dim", yarn.mscale_all_dim},
          {"original_context", yarn.original_context}};
}

Json model_json(const ModelSpec& model) {
  Json json = {{"name", model.name},
               {"parameters", count_parameters(model)},
               {"family", family_name(model.family)},
               {"objective", objective_name(model.objective)},
               {"layers", model.layers},
               {"hidden", model.hidden},
               {"heads", model.heads},
               {"kv_heads", model.kv_heads},
               {"head_dim", model.head_dim},
               {"feed_forward", model.feed_forward},
               {"vocabulary", model.vocabulary},
               {"max_positions", model.max_positions},
               {"training_length", model.training_length},
               {"tied_embeddings", model.tied_embeddings},
               {"norm_epsilon", model.norm_epsilon},
               {"rope_theta", model.rope_theta},
               {"gelu", model.gelu},
               {"initializer_range", model.initializer_range},
               {"image_size", model.image_size},
               {"channels", model.channels},
               {"patch", model.patch},
               {"classes", model.classes},
               {"stage_blocks", model.stage_blocks},
               {"bottleneck", model.bottleneck},
               {"small_images", model.small_images},
               {"inputs", model.inputs},
               {"outputs", model.outputs},
               {"attention_bias", model.attention_bias},
               {"head_norm", model.head_norm}};
  if (model.experts) json["experts"] = experts_json(*model.experts);
  if (model.latent_attention) {
    json["latent_attention"] = latent_attention_json(*model.latent_attention);
  }
  if (model.yarn) json["yarn"] = yarn_json(*model.yarn);
  if (model.rope_scaling) {
    json["rope_scaling"] = {{"factor", model.rope_scaling->factor},
                            {"low_freq_factor", model.rope_scaling->low_freq_factor},
                            {"high_freq_factor", model.rope_scaling->high_freq_factor},
                            {"original_context", model.rope_scaling->original_context}};
  }
  return json;
}
Json job_json(const Job& job) {
  return {{"global_batch", job.global_batch},
          {"seq", job.seq},
          {"precision", dtype_name(job.precision)},
          {"optimizer", optimizer_name(job.optimizer)},
          {"gradient_type", dtype_name(job.gradient_type)},
          {"master_weights", job.master_weights},
          {"state_type", dtype_name(job.state_type)},
          {"beta1", job.beta1},
          {"beta2", job.beta2},
          {"epsilon", job.epsilon},
          {"momentum", job.momentum},
          {"weight_decay", job.weight_decay},
          {"decay_all", job.decay_all},
          {"clip", job.clip},
          {"dropout", job.dropout},
          {"eval_batches", job.eval_batches},
          {"measure_noise", job.measure_noise},
          {"framework", job.framework}};
}
Json strategy_json(const Strategy& s) {
  Json layers = Json::array();
  for (const Recompute one : s.recompute) layers.push_back(recompute_name(one));
  return {{"dp", s.dp},
          {"tp", s.tp},
          {"pp", s.pp},
          {"cp", s.cp},
          {"ep", s.ep},
          {"zero", s.zero},
          {"shard_group", s.shard_group},
          {"zero_prefetch", s.zero_prefetch},
          {"sequence_parallel", s.sequence_parallel},
          {"micro_batch", s.micro_batch},
          {"schedule", s.schedule},
          {"interleave", s.interleave},
          {"stage_bounds", s.stage_bounds},
          {"recompute", layers},
          {"attention", s.attention},
          {"loss_chunks", s.loss_chunks},
          {"rank_order", s.rank_order}};
}

Json stages_json(const Plan& plan) {
  const std::vector<int> bounds = stage_bounds(plan.model, plan.strategy);
  const auto num_stages = static_cast<size_t>(plan.strategy.pp);
  const auto num_chunks = static_cast<size_t>(plan.strategy.interleave);
  Json stages = Json::array();
  for (size_t stage = 0; stage < num_stages; ++stage) {
    Json chunks = Json::array();
    for (size_t chunk = 0; chunk < num_chunks; ++chunk) {
      const size_t part = chunk * num_stages + stage;
      chunks.push_back({bounds[part], bounds[part + 1]});
    }
    stages.push_back(num_chunks == 1 ? Json{{"layers", chunks.front()}} : Json{{"chunks", chunks}});
  }
  return stages;
}

Json predicted_json(const Prediction& p) {
  Json memory = Json::object();
  for (int i = 0; i < kNumCategories; ++i) {
    memory[std::string(category_name(static_cast<Category>(i)))] =
        p.by_category[static_cast<size_t>(i)];
  }
  return {{"live_peak_bytes", p.stage_live_peak_bytes},
          {"arena_bytes", p.stage_arena_bytes},
          {"peak_bytes", p.stage_peak_bytes},
          {"memory", memory},
          {"peak_phase", p.peak_phase},
          {"peak_instruction", p.peak_instruction},
          {"step_seconds", p.step_seconds},
          {"tokens_per_second", p.tokens_per_second},
          {"mfu", p.mfu},
          {"bubble", p.bubble},
          {"flops_convention", Header{}.flops_convention}};
}

Json cluster_json(const Cluster& cluster) {
  return {{"text", cluster.text},
          {"device", cluster.device.id},
          {"nodes", cluster.nodes},
          {"devices_per_node", cluster.devices_per_node}};
}

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
  if (json.has("shard_group")) json.get("shard_group", s.shard_group);
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

std::string plan_json(const Plan& plan) {
  Json json = {{"plimsoll_plan", 1},
               {"model", model_json(plan.model)},
               {"cluster", cluster_json(plan.cluster)},
               {"job", job_json(plan.job)},
               {"memory_limit_bytes", plan.memory_limit_bytes}};
  const std::string inputs = sha256_hex(json_text(json, -1));
  json["strategy"] = strategy_json(plan.strategy);
  json["stages"] = stages_json(plan);
  json["predicted"] = predicted_json(plan.predicted);
  json["search"] = {{"covered", plan.search.covered},
                    {"evaluated", plan.search.evaluated},
                    {"pruned", plan.search.pruned},
                    {"gap", plan.search.gap}};
  json["inputs_sha256"] = inputs;
  return json_text(json) + "\n";
}

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
