#include "planner/framework.h"

#include <algorithm>
#include <functional>

namespace plimsoll {

namespace {

template <typename List, typename Value>
bool has(const List& list, const Value& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

std::string recompute_not_run(const Profile& profile, const Strategy& strategy) {
  const auto& kinds = strategy.recompute;
  for (const Recompute kind : kinds) {
    if (!has(profile.runs.recompute, recompute_name(kind))) {
      return fmt::format("no recompute '{}'", recompute_name(kind));
    }
  }
  const bool mixed =
      std::adjacent_find(kinds.begin(), kinds.end(), std::not_equal_to<>()) != kinds.end();
  return mixed && !profile.runs.mixed_recompute ? "the same recompute in all layers alone" : "";
}

std::string first_not_run(const Profile& profile, const Strategy& strategy) {
  struct Degree {
    std::string_view key, name;
    int value;
  };
  for (const auto& [key, name, value] : {Degree{"dp", "data", strategy.dp},
                                         {"tp", "tensor", strategy.tp},
                                         {"pp", "pipeline", strategy.pp},
                                         {"cp", "context", strategy.cp},
                                         {"ep", "expert", strategy.ep}}) {
    if (value > 1 && !has(profile.runs.parallel, key)) {
      return fmt::format("no {} parallelism (--{} {})", name, key, value);
    }
  }
  if (!has(profile.runs.zero, int64_t{strategy.zero})) {
    return fmt::format("no ZeRO stage {}", strategy.zero);
  }
  if (strategy.sequence_parallel && !profile.runs.sequence_parallel) {
    return "no sequence parallelism";
  }
  // Without a pipeline the schedule says nothing.
  if (strategy.pp > 1 && !has(profile.runs.schedules, strategy.schedule)) {
    return fmt::format("no schedule '{}'", strategy.schedule);
  }
  return recompute_not_run(profile, strategy);
}

}  // namespace

void apply_profile(const Profile& profile, Job& job) {
  const StateTypes states = state_types(profile, job.precision);
  job.gradient_type = states.gradients;
  job.master_weights = states.master_weights;
  job.state_type = states.moments;
}

std::string why_not_run(const Profile& profile, const Strategy& strategy) {
  const std::string what = first_not_run(profile, strategy);
  return what.empty() ? "" : fmt::format("{} runs {}", profile.name, what);
}

}  // namespace plimsoll
