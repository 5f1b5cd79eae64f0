// The job options and pins that plan, tradeoff, train and explain share (D6 of the design).
#pragma once

#include "planner/search.h"

#include <CLI/CLI.hpp>

#include <optional>
#include <string>

namespace plimsoll::cli {

// Global batches of one evaluation: planned for unless a run says otherwise.
inline constexpr int64_t kEvalBatches = 4;

// What the command line says, not yet resolved.
struct JobArguments {
  std::optional<int64_t> global_batch, seq;
  std::string precision, optimizer = "adamw", framework = "plimsoll", memory_limit,
                         objective = "time";
  std::optional<int64_t> tokens;
  double weight_decay = 0.01, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, momentum = 0.9,
         clip = 1.0, dropout = 0;
  std::string decay = "matrices";
  Pins pins;
  std::string recompute;  // none, selective or full; empty: searched
  bool exhaustive = false;
};

// What is to be planned, with all defaults filled in.
struct Request {
  ModelSpec model;
  Cluster cluster;
  Job job;
  Pins pins;
  int64_t memory_limit_bytes = 0;
  SearchObjective objective = SearchObjective::kTime;
};

void add_job_options(CLI::App& command, JobArguments& arguments);

// Loads model and cluster and fills in the defaults of D6. Throws Error (exit 2) on bad values.
[[nodiscard]] Request resolve(const std::string& model, const std::string& cluster,
                              const JobArguments& arguments);

// 70% of the host's memory over the devices: the cap of a CPU device when none is given.
[[nodiscard]] int64_t default_device_memory(int64_t num_devices);

// Searches with a progress line on a terminal (stderr).
[[nodiscard]] SearchResult search_with_progress(const Request& request, bool exhaustive);

}  // namespace plimsoll::cli
