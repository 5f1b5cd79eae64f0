// The fit advisor: what a configuration's memory is, what would make it fit, at which price.
//
// Nothing here is a rule of thumb: every figure is that of a configuration which was lowered,
// placed and simulated, so a change that is advised gives exactly the bytes and the time that are
// told when its pins are searched or lowered again.
#pragma once

#include "planner/changes.h"
#include "planner/evaluator.h"
#include "planner/peak_anatomy.h"
#include "planner/search.h"

#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

struct AdviceRequest {
  ModelSpec model;
  Cluster cluster;
  Job job;
  Pins pins;
  int64_t memory_limit_bytes = 0;  // of one device, on `peak`
  SearchObjective objective = SearchObjective::kTime;
};

// A configuration beside the one that is explained.
struct Option {
  Evaluated evaluated;
  std::string text;               // what differs, in words: "micro-batch 4 × 8 steps"
  std::vector<std::string> keys;  // the dimensions that differ
  bool same_result = true;        // the loss is the same but for rounding
  bool fits = false;
  int64_t saved_bytes = 0;  // of the peak; negative when it needs more
  double price = 0;         // step time over the explained one's, less 1
  // `pins` say all of it. Part of the layers recomputed cannot be pinned: the search finds it only
  // where it is the least number that fits.
  bool searchable = true;
  Pins pins;         // with them `search` gives this strategy
  FlagChange flags;  // the same on the command line
};

// One trick alone.
struct LadderStep {
  const Dimension* dimension = nullptr;
  std::string refusal;              // why the trick cannot be used here; empty when it can
  std::optional<Option> first_fit;  // its mildest setting that fits
  std::optional<Option> end;        // its strongest setting; empty: nothing beyond what is in use
};

// The largest value of a size that fits.
struct Largest {
  int64_t value = 0;         // 0: not even the smallest fits
  std::optional<Option> at;  // the configuration with it
  // The next value does not fit; else the model or the job allows no larger one, for `reason`.
  bool limited_by_memory = true;
  std::string reason;
  int64_t next_value = 0;       // the smallest value tried that does not fit, 0: none
  int64_t next_peak_bytes = 0;  // what it would need
  bool monotone = true;         // memory rose with the value wherever it was evaluated
};

// `configured`: all else as explained. `open`: with the best of what the pins leave open.
struct LargestPair {
  Largest configured, open;
};

// Data parallelism over more, or fewer, devices of the same kind.
struct DeviceAdvice {
  // Weights and optimizer state alone do not fit: data parallelism never helps.
  bool states_exceed = false;
  int64_t floor_bytes = 0;  // what every rank keeps whatever the number
  // No split, however fine, needs fewer devices: what must be kept over what a device has.
  int64_t least_if_sharded = 0;
  std::optional<Option> configured;  // the batch spread over them, all else as explained
  std::optional<Option> open;        // with the least memory that the pins leave open
};

struct HardwareAdvice {
  std::optional<Option> configured, open;  // on the device with the least memory that holds it
};

struct Rejected {
  Evaluated evaluated;
  int64_t over_bytes = 0;  // 0 when refused
  CategoryShare largest;
};

struct Advice {
  AdviceRequest request;
  Evaluated explained;  // the plan, or when nothing fits the pins and else what is usual
  bool fits = false;
  bool planned = false;  // the search chose it: what the pins leave open is at its best
  PeakAnatomy anatomy;
  std::vector<LadderStep> ladder;
  std::optional<Option> together;      // every trick that leaves the loss as it is
  std::optional<Option> all_together;  // the others too
  std::vector<Option> changes;         // least changes that fit, cheapest first; empty when it fits
  std::optional<LargestPair> micro_batch, seq;  // seq: models with sequences
  DeviceAdvice devices;
  HardwareAdvice hardware;
  std::vector<Rejected> rejected;    // nearest to fitting first
  std::vector<Option> alternatives;  // the search's best without the strategy's pins
  SearchCounts search;               // of that search
  int64_t evaluated = 0;             // configurations lowered besides
};

// Throws Error (exit 2) when pins contradict the job, the model or each other. `progress` is called
// with the number of configurations evaluated so far.
[[nodiscard]] Advice advise(const AdviceRequest& request,
                            const std::function<void(int64_t)>& progress = {});

}  // namespace plimsoll
