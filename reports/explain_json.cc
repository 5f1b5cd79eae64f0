// The advice as JSON: keys are stable, bytes and seconds exact.
#include "reports/explain_report.h"

#include <nlohmann/json.hpp>

namespace plimsoll {

namespace {

using Json = nlohmann::ordered_json;

Json memory_json(const CategoryBytes& bytes) {
  Json json = Json::object();
  for (int c = 0; c < kNumCategories; ++c) {
    json[std::string(category_name(static_cast<Category>(c)))] = bytes[static_cast<size_t>(c)];
  }
  return json;
}

Json configuration_json(const Configuration& c) {
  const Strategy& s = c.strategy;
  return {{"text", s.text(c.job)},
          {"cluster", c.cluster.text},
          {"devices", c.cluster.num_devices()},
          {"dp", s.dp},
          {"micro_batch", s.micro_batch},
          {"accumulation", accumulation_steps(s, c.job)},
          {"recomputed_layers", s.num_recomputed()},
          {"selective_layers", s.num_recomputed(Recompute::kSelective)},
          {"attention", s.attention},
          {"loss_chunks", s.loss_chunks},
          {"zero", s.zero},
          {"zero_prefetch", s.zero_prefetch},
          {"seq", c.job.seq},
          {"precision", dtype_name(c.job.precision)},
          {"optimizer", optimizer_name(c.job.optimizer)},
          {"momentum", c.job.momentum}};
}

Json prediction_json(const Prediction& p) {
  return {{"live_peak_bytes", p.live_peak_bytes},
          {"arena_bytes", p.arena_bytes},
          {"peak_bytes", p.peak_bytes},
          {"memory", memory_json(peak_by_category(p))},
          {"phase", p.peak_phase},
          {"instruction", p.peak_instruction},
          {"step_seconds", p.step_seconds},
          {"tokens_per_second", p.tokens_per_second}};
}

Json option_json(const Option& o) {
  const CategoryShare largest = largest_category(o.evaluated.predicted);
  return {{"change", o.text},
          {"dimensions", o.keys},
          {"same_result", o.same_result},
          {"fits", o.fits},
          {"saved_bytes", o.saved_bytes},
          {"price", o.price},
          {"searchable", o.searchable},
          {"add", o.flags.add},
          {"drop", o.flags.drop},
          {"largest_category", category_name(largest.category)},
          {"largest_category_bytes", largest.bytes},
          {"configuration", configuration_json(o.evaluated.configuration)},
          {"predicted", prediction_json(o.evaluated.predicted)}};
}

Json option_json(const std::optional<Option>& o) { return o ? option_json(*o) : Json(nullptr); }

Json options_json(const std::vector<Option>& options) {
  Json json = Json::array();
  for (const Option& o : options) json.push_back(option_json(o));
  return json;
}

Json next_json(const NextUse& next) {
  switch (next.when) {
    case NextUse::When::kNever:
      return nullptr;
    case NextUse::When::kNow:
    case NextUse::When::kLater:
      break;
  }
  return {{"pass", pass_name(next.pass)},
          {"op", next.op},
          {"layer", next.layer},
          {"instructions_ahead", next.instructions_ahead}};
}

Json peak_json(const PeakAnatomy& a) {
  Json groups = Json::array();
  for (const BufferGroup& group : a.groups) {
    groups.push_back({{"category", category_name(group.category)},
                      {"what", group.label},
                      {"dtype", dtype_name(group.dtype)},
                      {"persistent", group.persistent},
                      {"layers", group.layers},
                      {"count", group.count},
                      {"bytes", group.bytes},
                      {"next_use", next_json(group.next)}});
  }
  return {{"rank", a.rank},
          {"phase", a.at.phase},
          {"segment", a.at.segment},
          {"iteration", a.at.iteration},
          {"repeat", a.at.repeat},
          {"pass", pass_name(a.at.pass)},
          {"layer", a.at.layer},
          {"op", a.at.op},
          {"writes", a.at.writes},
          {"packing_bytes", a.packing_bytes},
          {"outside_bytes", a.outside_bytes},
          {"peak_bytes", a.peak_bytes},
          {"buffers", groups}};
}

Json ladder_json(const Advice& advice) {
  Json json = Json::array();
  for (const LadderStep& step : advice.ladder) {
    json.push_back(
        {{"dimension", step.dimension->key},
         {"trick", step.dimension->title},
         {"same_result", step.dimension->same_result},
         {"now", step.dimension->text(advice.request.model, advice.explained.configuration)},
         {"refusal", step.refusal},
         {"first_fit", option_json(step.first_fit)},
         {"end", option_json(step.end)}});
  }
  return json;
}

Json largest_json(const Largest& largest) {
  return {{"value", largest.value},
          {"limited_by_memory", largest.limited_by_memory},
          {"reason", largest.reason},
          {"next_value", largest.next_value},
          {"next_peak_bytes", largest.next_peak_bytes},
          {"monotone", largest.monotone},
          {"at", option_json(largest.at)}};
}

Json largest_json(const std::optional<LargestPair>& pair) {
  if (!pair) return nullptr;
  return {{"configured", largest_json(pair->configured)}, {"open", largest_json(pair->open)}};
}

Json why_not_json(const Advice& advice) {
  const Prediction& p = advice.explained.predicted;
  const int64_t limit = advice.request.memory_limit_bytes;
  return {{"limit_bytes", limit},
          {"peak_bytes", p.peak_bytes},
          {"over_bytes", p.peak_bytes - limit},
          {"strategy", advice.explained.configuration.strategy.text(advice.request.job)},
          {"phase", p.peak_phase},
          {"instruction", p.peak_instruction},
          {"memory", memory_json(peak_by_category(p))}};
}

Json rejected_json(const Advice& advice) {
  Json json = Json::array();
  for (const Rejected& one : advice.rejected) {
    json.push_back({{"configuration", configuration_json(one.evaluated.configuration)},
                    {"predicted", prediction_json(one.evaluated.predicted)},
                    {"over_bytes", one.over_bytes},
                    {"largest_category", category_name(one.largest.category)},
                    {"largest_category_bytes", one.largest.bytes}});
  }
  return json;
}

}  // namespace

std::string explain_json(const Advice& advice) {
  const AdviceRequest& r = advice.request;
  Json json = {{"model", {{"name", r.model.name}, {"parameters", count_parameters(r.model)}}},
               {"cluster", {{"text", r.cluster.text}, {"devices", r.cluster.num_devices()}}},
               {"job",
                {{"global_batch", r.job.global_batch},
                 {"seq", r.job.seq},
                 {"precision", dtype_name(r.job.precision)},
                 {"optimizer", optimizer_name(r.job.optimizer)}}},
               {"limit_bytes", r.memory_limit_bytes},
               {"fits", advice.fits},
               {"planned", advice.planned},
               {"configuration", configuration_json(advice.explained.configuration)},
               {"predicted", prediction_json(advice.explained.predicted)}};
  if (!advice.fits) json["why_not"] = why_not_json(advice);
  json["peak"] = peak_json(advice.anatomy);
  json["ladder"] = ladder_json(advice);
  json["together"] = option_json(advice.together);
  json["all_together"] = option_json(advice.all_together);
  json["changes"] = options_json(advice.changes);
  json["largest"] = {{"micro_batch", largest_json(advice.micro_batch)},
                     {"seq", largest_json(advice.seq)}};
  json["devices"] = {{"states_exceed", advice.devices.states_exceed},
                     {"floor_bytes", advice.devices.floor_bytes},
                     {"least_if_sharded", advice.devices.least_if_sharded},
                     {"configured", option_json(advice.devices.configured)},
                     {"open", option_json(advice.devices.open)}};
  json["hardware"] = {{"configured", option_json(advice.hardware.configured)},
                      {"open", option_json(advice.hardware.open)}};
  json["rejected"] = rejected_json(advice);
  json["alternatives"] = options_json(advice.alternatives);
  json["search"] = {{"covered", advice.search.covered},
                    {"evaluated", advice.search.evaluated},
                    {"pruned", advice.search.pruned},
                    {"evaluated_besides", advice.evaluated}};
  return json.dump(2) + "\n";
}

}  // namespace plimsoll
