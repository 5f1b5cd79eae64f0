// Schedules in folded form: runs of slots that repeat, as many for a thousand micro-batches as for
// a dozen.
#pragma once

#include "planner/schedule.h"

#include <string>
#include <vector>

namespace plimsoll {

// Iteration i of a run has its slots for micro-batch first_microbatch + i * stride +
// slot.microbatch (relative, from 0).
struct ScheduleRun {
  // "warm-up": forwards alone; "steady": both; "cool-down": no forward, but of chunks the last
  // units of both that make no round. Numbered where there are several.
  std::string name;
  int64_t repeat = 1;
  int64_t first_microbatch = 0;
  int64_t stride = 1;
  std::vector<ScheduleSlot> slots;
  friend bool operator==(const ScheduleRun&, const ScheduleRun&) = default;
};

// The runs that schedule_order is made of. Units that differ in the micro-batch alone, by one, are
// one run; an interleaved schedule is a run of all that is ahead, rounds of p micro-batches of v
// chunks (each a body of p v units with stride p), and a run of the rest. Throws what
// schedule_order throws.
[[nodiscard]] std::vector<ScheduleRun> fold_schedule(ScheduleKind kind, int stage, int num_stages,
                                                     int64_t num_microbatches, int num_chunks = 1);

// Forwards alone (evaluation), p micro-batches of each chunk in turn when there are several.
// Precondition: with several chunks, a multiple of num_stages micro-batches.
[[nodiscard]] ScheduleRun fold_forwards(int num_stages, int64_t num_microbatches, int num_chunks);

// The most micro-batches of a chunk between their forward and their backward (the weights' half of
// it, where it is split), counted from the oldest to the newest.
[[nodiscard]] int64_t window_in_flight(const std::vector<ScheduleRun>& runs, int chunk);

}  // namespace plimsoll
