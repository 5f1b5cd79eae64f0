// The least time of a step, from the times of its stages.
//
// A chain of instructions that the simulator must run one after the other, the longest of a few:
// for each stage r, all that it computes, behind the first micro-batch's way to it and before the
// last gradient's way back to the first stage. The way to a stage is either that of the first
// activation, before all of the stage's work, or on through all later stages and back as a
// gradient, before all of its work but what runs ahead. On equal stages with free messages this is
// the closed form of GPipe and of 1F1B, (m + p - 1) (f + b) (Huang et al. 2019; Narayanan et al.
// 2021, section 2.2). With a split backward the work before the last gradient's way back is all but
// the weights' parts that are still behind: (m + p - 1) (f + i) + (m - p + 1) w, that of zero
// bubble H1 (Qi et al. 2023, section 2.2).
#pragma once

#include "planner/stage_form.h"

#include <span>

namespace plimsoll {

// What a bound needs of a stage.
struct StageLoad {
  StageTimes times{};
  int64_t ahead = 0;  // micro-batches, as in StageShape
  int64_t steady = 1;
  bool split = false;
  int64_t behind = 0;
};
[[nodiscard]] StageLoad load_of(const StageShape& shape, const StageTimes& times);

// Seconds that no run of the stages, in order, is faster than. Precondition: not empty.
[[nodiscard]] double step_bound(std::span<const StageLoad> stages);

// The chain through the later stages in parts: step_bound is at least the passing_seconds of all
// stages plus the largest of their own_seconds, which is what a partition minimises.
[[nodiscard]] double passing_seconds(const StageLoad& stage, bool is_first, bool is_last);
[[nodiscard]] double own_seconds(const StageLoad& stage, bool is_first, bool is_last);

}  // namespace plimsoll
