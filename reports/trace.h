// A simulated run as a Chrome trace (JSON), which Perfetto and chrome://tracing open.
//
// A process for each stage, a thread for each stream (receives apart: they overlap sends), a slice
// for each instruction, an arrow for each message, and a counter of live device bytes by category.
// Names of slices are few and stable, since viewers colour by name; the rest is in `args`. Times
// are whole nanoseconds, so that slices of a thread never overlap. The counter's largest sum is the
// phase's live peak: an instruction shows the most that is live at any iteration of its kind
// (first, middle, last; program/timeline.h).
#pragma once

#include "costmodel/rank_simulator.h"
#include "program/program.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

struct TraceOptions {
  std::string phase = "step";  // that the run is of
  // With more instructions than this, neighbouring ones of one name become one slice, so that
  // viewers stay quick. Messages are never joined.
  int64_t max_slices = 200'000;
};

// `run` is simulate_ranks(stages, …) with recorded events.
[[nodiscard]] std::string trace_json(std::span<const StepProgram> stages, const SimulatedRun& run,
                                     const TraceOptions& options = {});

}  // namespace plimsoll
