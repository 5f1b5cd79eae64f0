// Times of one stage's segments and messages, read off its program.
#pragma once

#include "costmodel/cluster.h"
#include "planner/stage_form.h"
#include "program/program.h"

namespace plimsoll {

// Of the phase "step", with the models that plans are simulated with. What no segment of the
// program has is 0. `is_split`: the backward has two parts.
[[nodiscard]] StageTimes stage_times(const StepProgram& program, const Cluster& cluster,
                                     bool is_split);

}  // namespace plimsoll
