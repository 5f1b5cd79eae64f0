// What `plimsoll train` shows and leaves behind: step lines, the final table, summary.json.
#pragma once

#include "executor/summary.h"
#include "executor/trainer.h"
#include "planner/plan.h"

#include <chrono>
#include <cstdint>
#include <string>

namespace plimsoll::cli {

// Prints a line for a step now and then; on a terminal a bar that moves.
class StepPrinter {
 public:
  StepPrinter(int64_t total_steps, double predicted_step_seconds, bool terminal);
  void show(const StepMetrics& metrics);
  // Takes the bar away.
  void finish() const;

 private:
  void print_row(const StepMetrics& metrics);

  int64_t total_steps_;
  double predicted_step_seconds_;
  bool terminal_;
  bool headed_ = false;
  int64_t every_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Predicted against measured: arena, step time, resident growth and what it consists of.
[[nodiscard]] std::string final_table(const TrainResult& result);

// What the result of a run depends on, for summary.json.
[[nodiscard]] Environment environment(const TrainOptions& options, const std::string& command_line);

}  // namespace plimsoll::cli
