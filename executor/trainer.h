// Trains: one thread a rank, each with its arena, threads and interpreter.
//
// All ranks take the same decisions from the same numbers; rank 0 alone writes files and speaks to
// the caller. A rank that fails ends the run with its error, and nothing waits for ever.
#pragma once

#include "executor/data.h"
#include "executor/interpreter.h"
#include "executor/resident.h"
#include "executor/schedule.h"
#include "executor/telemetry.h"
#include "program/program.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace plimsoll {

struct TrainOptions {
  int64_t steps = 100;
  uint64_t seed = 0;
  Schedule schedule;
  // Of each device, over arena and what lies outside it.
  int64_t device_memory_bytes = std::numeric_limits<int64_t>::max();
  int threads_per_rank = 0;  // 0: the machine's cores over the ranks, at least 1

  int64_t eval_every = 0;             // steps between evaluations; 0: at the end alone
  std::optional<double> target_loss;  // stop when the validation loss is this or less
  int64_t patience = 0;  // stop after that many evaluations without a new best; 0: never

  std::string out_dir;           // metrics.csv and checkpoints/; empty: no files
  int64_t checkpoint_every = 0;  // steps; 0: on interruption alone
  int keep_checkpoints = 2;
  bool resume = false;    // from the newest complete checkpoint of out_dir
  std::string init_file;  // initial parameters: safetensors or llm.c
  std::string plan_hash;  // stored with checkpoints

  int64_t noise_every = 0;         // steps between phases "step_noise", where the program has one
  double noise_decay = 0.99;       // of the noise scale's averages, per step
  double watchdog_seconds = 600;   // longest wait for another rank
  bool poison = kPoisonByDefault;  // overwrite released buffers with NaN
  // SIGINT or SIGTERM once it has arrived, else 0: the step is finished, a checkpoint written.
  const std::atomic<int>* signal = nullptr;
};

struct TrainCallbacks {
  std::function<void(const StepMetrics&)> on_step;     // rank 0's thread, after metrics.csv
  std::function<void(const std::string&)> on_message;  // warnings and notes, one line each
  // A rank neither ends nor can be ended. The default prints the error and ends the process with
  // exit code 4: a thread cannot be stopped from outside.
  std::function<void(const std::string&)> on_stuck;
};

enum class StopReason : uint8_t { kSteps, kTargetLoss, kConverged, kInterrupted };
[[nodiscard]] std::string_view stop_reason_name(StopReason reason);

struct RankReport {
  int rank = 0;
  int64_t predicted_arena_bytes = 0;
  int64_t measured_arena_bytes = 0;
  bool guard_intact = false;
  int64_t predicted_peak_bytes = 0;
  int64_t device_memory_bytes = 0;
};

struct TrainResult {
  int64_t steps = 0;                     // done, those before a resume included
  int64_t resumed_from_step = -1;        // -1: started anew
  std::optional<float> final_loss;       // of the last step; empty when none was run
  std::optional<float> validation_loss;  // the last one measured
  std::optional<float> best_validation_loss;
  std::optional<double> validation_accuracy;  // of classifiers, at the last evaluation
  StopReason stop = StopReason::kSteps;
  int signal = 0;          // when interrupted; the exit code is 128 + signal
  std::string checkpoint;  // the last one written, empty for none
  std::vector<RankReport> ranks;
  double predicted_step_seconds = 0;
  double measured_step_seconds = 0;  // median after warm-up, evaluations not counted
  std::optional<double> noise_scale;
  ResidentGrowth resident;
};

// Runs the programs, one a rank, in rank order. Throws Error: exit 3 when a program's peak exceeds
// the device memory (before anything is allocated), 4 when the run fails, 2 when program, data or
// files do not suit.
TrainResult train(std::span<const StepProgram> rank_programs, const DataSource& data,
                  const TrainOptions& options, const TrainCallbacks& callbacks = {});

}  // namespace plimsoll
