// What a framework's profile means for a job and for a strategy.
#pragma once

#include "costmodel/profile.h"
#include "planner/job.h"
#include "planner/strategy.h"

#include <string>

namespace plimsoll {

// Gradient type, master weights and state type of the job's precision, as the framework keeps them.
void apply_profile(const Profile& profile, Job& job);

// What of the strategy the framework does not run, as "megatron runs no context parallelism (--cp
// 2)"; empty when it runs all of it.
[[nodiscard]] std::string why_not_run(const Profile& profile, const Strategy& strategy);

}  // namespace plimsoll
