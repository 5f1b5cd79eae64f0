// Plan JSON as it is written; planner/plan_json_read.cc reads it.
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

}  // namespace plimsoll
