// Pipeline partition: which layers and which recompute options each stage of a pipeline gets.
//
// A chain of L layers is cut into p stages, contiguous and unequal, none empty; what a stage holds
// whatever its layers are (embedding, head, context) is the stage's own load. The partition found
// has the smallest
//     sum_i t_i + (m - 1) * max_i t_i
// for stage times t_i of one micro-batch (forward plus backward) and m micro-batches: the time of
// GPipe and of 1F1B on stages of unequal speed. Each stage keeps to its memory:
//     states + in_flight * saved + the largest working set,
// a working set counted on top of all that is saved. Plain data in, plain data out; nothing of
// models or clusters is known here.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace plimsoll {

// One way to run a layer: keep all for backward, run some or all of it again, offload, …
struct PartitionOption {
  int64_t saved_bytes = 0;    // kept from forward to backward, of one micro-batch
  int64_t working_bytes = 0;  // while the layer runs, on top of what is saved
  double extra_seconds = 0;   // of one micro-batch, on top of the layer's own
  friend bool operator==(const PartitionOption&, const PartitionOption&) = default;
};

// What it costs to begin a stage at a layer; the first layer's is never used.
struct PartitionBoundary {
  int64_t in_flight_bytes = 0;  // kept by the receiving stage, of one micro-batch in flight
  int64_t receiver_bytes = 0;   // message buffers
  int64_t sender_bytes = 0;
  double receiver_seconds = 0;  // of one micro-batch, as far as it is exposed
  double sender_seconds = 0;
  friend bool operator==(const PartitionBoundary&, const PartitionBoundary&) = default;
};

struct PartitionLayer {
  int64_t state_bytes = 0;  // weights, gradients, optimizer
  double seconds = 0;       // forward plus backward of one micro-batch
  std::vector<PartitionOption> options = {};
  PartitionBoundary boundary = {};  // to the layer before
  friend bool operator==(const PartitionLayer&, const PartitionLayer&) = default;
};

// A stage before it has layers: its limit, its schedule, its own load.
struct PartitionStage {
  int64_t limit_bytes = 0;
  int64_t in_flight = 1;      // micro-batches whose saved bytes it holds at once
  int64_t state_bytes = 0;    // embedding, head, whatever else is always there
  int64_t saved_bytes = 0;    // of one micro-batch in flight
  int64_t working_bytes = 0;  // the logits, say
  double seconds = 0;
  friend bool operator==(const PartitionStage&, const PartitionStage&) = default;
};

struct PartitionProblem {
  std::vector<PartitionLayer> layers;
  std::vector<PartitionStage> stages;
  int64_t micro_batches = 1;
  friend bool operator==(const PartitionProblem&, const PartitionProblem&) = default;
};

struct PartitionSolution {
  std::vector<int> first_layer_of_stage;  // half-open: stage r ends where r + 1 begins
  std::vector<int> option_of_layer;
  std::vector<double> seconds_of_stage;
  std::vector<int64_t> bytes_of_stage;
  double seconds = 0;  // the objective
  // No partition is faster than this; equal to `seconds` when the search was exact.
  double lower_bound_seconds = 0;
  friend bool operator==(const PartitionSolution&, const PartitionSolution&) = default;
};

// Micro-batches in flight at stage r of p with m micro-batches: min(m, p - r) for 1F1B, m for
// GPipe.
[[nodiscard]] int64_t in_flight_1f1b(int stage, int num_stages, int64_t micro_batches);
[[nodiscard]] int64_t in_flight_gpipe(int stage, int num_stages, int64_t micro_batches);

// The optimal partition, or nothing when no partition fits. Exact, with integer bytes, as long as a
// stage's list of undominated (bytes, time) choices stays within `max_choices`: then
// lower_bound_seconds == seconds. For equal layers the list is small by counting; for layers that
// all differ the relaxation's bound keeps it small, but time in exact proportion to bytes can
// defeat it. Beyond the limit the stage keeps the best choice found and its bound, the result is a
// valid partition, and lower_bound_seconds says how far from optimal it can be. Time without limit
// hits: under 10 ms for 128 equal layers on 64 stages. Sizes whose sums exceed 2^63 are an Error
// (exit 2).
[[nodiscard]] std::optional<PartitionSolution> solve_partition(const PartitionProblem& problem,
                                                               int64_t max_choices = 1 << 16);

// Time and bytes of a given partition, which need not fit; lower_bound_seconds is its own time.
[[nodiscard]] PartitionSolution evaluate_partition(const PartitionProblem& problem,
                                                   std::vector<int> first_layer_of_stage,
                                                   std::vector<int> option_of_layer);

// Contiguous partition of weights (none negative) into `num_parts` non-empty parts with the
// smallest largest sum: D(k, j) = min_i max(D(k - 1, i), w_i + … + w_{j-1}).
struct MinMaxPartition {
  double value = 0;
  std::vector<int> first_of_part;
};
[[nodiscard]] MinMaxPartition minmax_partition(const std::vector<double>& weights, int num_parts);

}  // namespace plimsoll
