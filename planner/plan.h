// A plan: what was asked for, the strategy that was chosen, and what is predicted of it.
#pragma once

#include "costmodel/cluster.h"
#include "costmodel/simulator.h"
#include "models/model.h"
#include "planner/job.h"
#include "planner/strategy.h"
#include "program/program.h"
#include "program/timeline.h"

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// What lowering, placement and simulation say of a strategy. Bytes are of the fullest rank.
struct Prediction {
  int64_t live_peak_bytes = 0;
  int64_t arena_bytes = 0;
  int64_t peak_bytes = 0;       // arena and what lies outside it
  CategoryBytes by_category{};  // at the live peak
  std::string peak_phase;
  std::string peak_instruction;  // "backward of h.5.attn (attention.backward), micro-batch 1"
  double step_seconds = 0;
  double tokens_per_second = 0;  // samples a second for models without sequences
  double mfu = 0;                // 0 when the device's peak is unknown
  std::array<double, kNumPasses> pass_seconds{};
  double exposed_seconds = 0;
};

struct SearchCounts {
  int64_t covered = 0;    // strategies of the space
  int64_t evaluated = 0;  // lowered, placed and simulated
  int64_t pruned = 0;     // ruled out by a bound
  double gap = 0;         // no strategy is better by more than this part
};

struct Plan {
  ModelSpec model;
  Cluster cluster;
  Job job;
  int64_t memory_limit_bytes = 0;  // of one device, on `peak`
  Strategy strategy;
  Prediction predicted;
  SearchCounts search;
};

// Lowers for rank 0 with the cluster's figures. The other ranks: for_rank().
[[nodiscard]] StepProgram lower_plan(const ModelSpec& model, const Cluster& cluster, const Job& job,
                                     const Strategy& strategy);

// What a lowered program promises on the cluster.
[[nodiscard]] Prediction predict(const StepProgram& program, const Cluster& cluster,
                                 const Job& job);

// The programs of all ranks of a plan, with the predicted step time in their headers.
[[nodiscard]] std::vector<StepProgram> rank_programs(const Plan& plan);

// Plan JSON (docs/formats.md). Reading checks every field: Error (exit 2) names file and key.
[[nodiscard]] std::string plan_json(const Plan& plan);
[[nodiscard]] Plan parse_plan_json(std::string_view text, const std::string& file);

}  // namespace plimsoll
