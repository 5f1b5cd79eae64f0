// The options of `plimsoll train`, from the command line or a JOB.toml with the same names as keys.
#pragma once

#include "cli/job_options.h"
#include "executor/trainer.h"

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

namespace plimsoll::cli {

struct TrainArguments {
  std::string model;  // MODEL, or a JOB.toml
  JobArguments job;

  std::string plan, data, device_memory, backend = "cpu", communicator = "threads", out, resume,
                                         init;
  std::optional<int64_t> devices;
  int64_t steps = 100;
  int64_t seed = 0;
  double learning_rate = 1e-3;
  std::string lr_schedule = "cosine";
  std::optional<int64_t> warmup_steps;  // a tenth of the steps, at most 100
  int64_t eval_every = 0, patience = 0;
  std::optional<int64_t> eval_batches;  // the plan's, kEvalBatches without one
  std::optional<double> target_loss;
  int64_t checkpoint_every = 0, keep_checkpoints = 2;
  std::string batch, profile;
  int64_t norm_batch = 0;
  int64_t noise_every = 0;
  int64_t threads = 0;
  std::string data_order = "shuffled";
  double validation_fraction = 0.1;
};

void add_train_options(CLI::App& command, TrainArguments& arguments);

// The command-line words that a JOB.toml stands for ("steps = 10" is "--steps 10", "model" comes
// first). Throws Error (exit 2) naming file, line and key.
[[nodiscard]] std::vector<std::string> job_file_words(const std::string& path);

// Parses a JOB.toml's words as if they had been typed, and then `typed` over them. Throws Error
// (exit 2) for keys that are no options.
[[nodiscard]] TrainArguments parse_job_file(const std::string& path,
                                            const std::vector<std::string>& typed);

// Checks ranges and what this version cannot run (exit 2), and fills in the executor's options.
[[nodiscard]] TrainOptions executor_options(const TrainArguments& arguments);

}  // namespace plimsoll::cli
