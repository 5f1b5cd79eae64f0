// The simulator: how long one step of a StepProgram takes.
//
// Walks the step phase of one rank on its folded form. A stream runs its instructions in order; an
// instruction starts when its stream is free and what it waits for is done. Streams join at the end
// of a body, so a segment takes its body's time once a repetition. What it returns is THE predicted
// step time: plans, reports and `simulate` print this number.
#pragma once

#include "costmodel/cluster.h"
#include "costmodel/collective_time.h"
#include "costmodel/op_time.h"
#include "program/program.h"

#include <array>
#include <string>
#include <vector>

namespace plimsoll {

inline constexpr int kNumPasses = static_cast<int>(Pass::kInitialise) + 1;

struct SimulatedSegment {
  std::string name;
  int64_t repeat = 1;
  double body_seconds = 0;  // of one repetition
};

struct SimulatedStep {
  double step_seconds = 0;
  double compute_seconds = 0;        // sum over instructions that are no collectives
  double communication_seconds = 0;  // sum over collectives, hidden or not
  double exposed_seconds = 0;        // part of the step in which collectives alone were running
  std::array<double, kNumPasses> pass_seconds{};  // sum over instructions, by Pass
  std::vector<SimulatedSegment> segments;

  [[nodiscard]] double seconds_of(Pass pass) const {
    return pass_seconds[static_cast<size_t>(pass)];
  }
};

// Ranks and stride of an instruction's group ("dp", "tp", "data", …) under the rank order tp, cp,
// ep, dp, pp with tp fastest; of a message: the two stages ("next" of the last is the first). An
// unknown group is an Error (exit 2): programs also come from files.
[[nodiscard]] CollectiveGroup group_of(const Instruction& instruction,
                                       const Coordinates& coordinates);

// Bytes of a collective by the convention of CollectiveTimeModel: the larger of what it reads and
// what it writes, which is the whole tensor, in place or not; of an all-to-all what balanced
// routing sends, of a part reduced in place (attribute `shards`) that part.
[[nodiscard]] double collective_bytes(const StepProgram& program, const Instruction& instruction);

// Times the phase `phase` ("step") of a verified program. Throws Error (exit 2) when the program
// has no such phase or the device cannot compute in its type.
[[nodiscard]] SimulatedStep simulate(const StepProgram& program, const Cluster& cluster,
                                     const OpTimeModel& op_time,
                                     const CollectiveTimeModel& collective_time,
                                     std::string_view phase = "step");

// The same with the models that a plan's prediction is made with.
[[nodiscard]] SimulatedStep simulate(const StepProgram& program, const Cluster& cluster);

}  // namespace plimsoll
