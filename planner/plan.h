// A plan: what was asked for, the strategy that was chosen, and what is predicted of it.
#pragma once

#include "costmodel/cluster.h"
#include "costmodel/simulator.h"
#include "models/model.h"
#include "planner/job.h"
#include "planner/strategy.h"
#include "program/program.h"
#include "program/timeline.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// What lowering, placement and simulation say of a strategy. Bytes are of the fullest rank.
struct Prediction {
  int fullest_stage = 0;
  // Of each pipeline stage.
  std::vector<int64_t> stage_live_peak_bytes, stage_arena_bytes, stage_peak_bytes;
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
  double bubble = 0;  // part of the stages' time that a pipeline leaves idle
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

// Lowers all pipeline stages with the cluster's figures, each for its first data-parallel rank. The
// other ranks: for_rank().
[[nodiscard]] std::vector<StepProgram> lower_plan(const ModelSpec& model, const Cluster& cluster,
                                                  const Job& job, const Strategy& strategy);

// What the lowered stages promise on the cluster: memory of the fullest one, time of all.
[[nodiscard]] Prediction predict(std::span<const StepProgram> stages, const Cluster& cluster,
                                 const Job& job);

// One program a pipeline stage, of its first rank, with the predicted step time in the header.
[[nodiscard]] std::vector<StepProgram> stage_programs(const Plan& plan);

// The programs of all ranks, in order.
[[nodiscard]] std::vector<StepProgram> rank_programs(const Plan& plan);

// Plan JSON (docs/formats.md). Reading checks every field: Error (exit 2) names file and key.
[[nodiscard]] std::string plan_json(const Plan& plan);
[[nodiscard]] Plan parse_plan_json(std::string_view text, const std::string& file);

}  // namespace plimsoll
