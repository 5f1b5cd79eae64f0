#include "executor/summary.h"

#include <nlohmann/json.hpp>

namespace plimsoll {

namespace {

using nlohmann::ordered_json;

template <typename T>
ordered_json or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json resident_json(const ResidentGrowth& resident) {
  ordered_json json;
  json["before_bytes"] = resident.before_bytes;
  json["after_bytes"] = resident.after_bytes;
  json["growth_bytes"] = resident.growth_bytes();
  json["arenas_bytes"] = resident.arenas_bytes;
  json["stacks_bytes"] = resident.stacks_bytes;
  json["rest_bytes"] = resident.rest_bytes();
  json["data_set_bytes"] = resident.data_set_bytes;
  return json;
}

}  // namespace

std::string summary_json(const TrainResult& result, const Environment& environment) {
  ordered_json json;
  json["steps"] = result.steps;
  json["final_loss"] = or_null(result.final_loss);
  json["validation_loss"] = or_null(result.validation_loss);
  json["best_validation_loss"] = or_null(result.best_validation_loss);
  json["validation_accuracy"] = or_null(result.validation_accuracy);
  json["stopped_by"] = stop_reason_name(result.stop);
  json["resumed_from_step"] =
      result.resumed_from_step < 0 ? ordered_json(nullptr) : ordered_json(result.resumed_from_step);
  json["ranks"] = ordered_json::array();
  for (const RankReport& rank : result.ranks) {
    ordered_json one;
    one["rank"] = rank.rank;
    one["predicted_arena_bytes"] = rank.predicted_arena_bytes;
    one["measured_arena_bytes"] = rank.measured_arena_bytes;
    one["predicted_peak_bytes"] = rank.predicted_peak_bytes;
    one["device_memory_bytes"] = rank.device_memory_bytes;
    one["guard_intact"] = rank.guard_intact;
    json["ranks"].push_back(std::move(one));
  }
  json["predicted_step_seconds"] = result.predicted_step_seconds;
  json["measured_step_seconds"] = result.measured_step_seconds;
  json["noise_scale"] = or_null(result.noise_scale);
  json["resident_bytes"] = result.resident.after_bytes;
  json["resident"] = resident_json(result.resident);
  json["environment"] = ordered_json::object();
  for (const auto& [name, value] : environment) json["environment"][name] = value;
  // A command line may hold any bytes; what is no UTF-8 is replaced.
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace plimsoll
