// The search for the best strategy under a memory limit.
//
// Space: tensor (inside a node) × pipeline × data parallel degrees that use all devices × ZeRO ×
// every micro-batch that divides a rank's share × whole or chunked loss × full recompute of the
// first k layers of each stage. What is pruned is ruled out by a bound: strategies are taken in the
// order of a lower bound of their time (all FLOPs at the attainable rate, with the pipeline's fill)
// until it exceeds the best time found; model states alone above the limit cannot fit; for one
// split and micro-batch, time grows with k, so the smallest k that fits is the best of them; and
// where full recompute does not fit, larger micro-batches of the split do not either.
#pragma once

#include "planner/plan.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

// Fields of the strategy that the user fixed; the rest is searched.
struct Pins {
  std::optional<int> dp, tp, pp, cp, ep, zero, shard_group, interleave;
  std::optional<bool> sequence_parallel;
  std::optional<int64_t> micro_batch;
  std::optional<std::string> schedule;
  std::optional<Recompute> recompute;
  std::optional<std::string> attention;
  std::optional<int64_t> loss_chunks;
};

enum class SearchObjective : uint8_t { kTime, kMemory };
// Throws Error (exit 2) naming the known ones.
[[nodiscard]] SearchObjective parse_objective(std::string_view name);

struct Candidate {
  Strategy strategy;
  Prediction predicted;
};

struct SearchResult {
  std::optional<Plan> best;
  std::vector<Candidate> alternatives;  // others that fit, best first, at most 5
  Candidate smallest;                   // least peak of all that was evaluated: why nothing fits
  SearchCounts counts;
};

// Called now and then with the number of strategies dealt with so far.
using SearchProgress = std::function<void(int64_t done, int64_t covered)>;

// Evaluates the space. Throws Error (exit 2) when pins contradict the job, the model or each other;
// `best` is empty when nothing fits.
[[nodiscard]] SearchResult search(const ModelSpec& model, const Cluster& cluster, const Job& job,
                                  const Pins& pins, int64_t memory_limit_bytes,
                                  SearchObjective objective, bool exhaustive = false,
                                  const SearchProgress& progress = {});

}  // namespace plimsoll
