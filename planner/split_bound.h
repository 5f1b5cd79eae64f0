// The least time of a step whose backward is split in two (zero bubble H1), see step_bound.h. Only
// planner/step_bound.cc includes this.
#pragma once

#include "planner/step_bound.h"

#include <span>

namespace plimsoll::internal {

// Precondition: at least two stages.
[[nodiscard]] double split_step_bound(std::span<const StageLoad> stages);
[[nodiscard]] double split_passing_seconds(const StageLoad& stage, bool is_first, bool is_last);
[[nodiscard]] double split_own_seconds(const StageLoad& stage, bool is_first, bool is_last);

}  // namespace plimsoll::internal
