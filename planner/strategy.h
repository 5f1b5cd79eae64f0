// How a job is split: one value for every choice that a plan makes (D4 of the design).
#pragma once

#include "models/model.h"
#include "planner/job.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// What of a layer's forward runs again before its backward: nothing, the ops that the framework's
// profile names (the core of attention: Korthikanti et al. 2022, section 5), or all of it.
enum class Recompute : uint8_t { kNone, kSelective, kFull };
[[nodiscard]] std::string_view recompute_name(Recompute recompute);
// Nothing when the word is none of none, selective and full.
[[nodiscard]] std::optional<Recompute> parse_recompute(std::string_view name);

struct Strategy {
  int dp = 1, tp = 1, pp = 1, cp = 1, ep = 1;
  int zero = 0;  // 1: optimizer states sharded over dp, 2: gradients, 3: parameters too
  // Hybrid sharding: ZeRO divides over groups of that many of the ranks that hold the same
  // parameters, and every group has all of them; 0: over all ranks.
  int shard_group = 0;
  // ZeRO 2 and 3: parameters are gathered a block ahead and gradients reduced beside the next
  // block's backward, for the memory of one block more.
  bool zero_prefetch = false;
  bool sequence_parallel = false;
  int64_t micro_batch = 1;
  std::string schedule = "1f1b";  // or "gpipe", "interleaved", "zb-h1": planner/schedule.h
  // Chunks of the model that a stage holds, more than 1 for "interleaved" alone: of p v parts in a
  // row, part k is chunk k / p of stage k mod p.
  int interleave = 1;
  // First layer of each part (stage, or chunk of one) and the number of layers; empty: even.
  std::vector<int> stage_bounds;
  std::vector<Recompute> recompute;  // of each layer
  std::string attention = "flash";
  int64_t loss_chunks = 1;
  std::vector<std::string> rank_order = {"tp", "cp", "ep", "dp", "pp"};

  [[nodiscard]] int num_ranks() const { return dp * tp * pp * cp * ep; }
  // Ranks with samples of their own.
  [[nodiscard]] int num_sample_ranks() const { return dp * ep; }
  // Ranks that hold the same parameters (but for experts, which ep divides).
  [[nodiscard]] int num_replicas() const { return dp * ep * cp; }
  // Layers of that kind of recompute.
  [[nodiscard]] int num_recomputed(Recompute kind = Recompute::kFull) const;
  // "none", "selective", "full", or "selective on 3 of 12 layers" where layers differ.
  [[nodiscard]] std::string recompute_text() const;
  // "dp 2 · micro-batch 4 x 8 steps · recompute full"
  [[nodiscard]] std::string text(const Job& job) const;
  friend bool operator==(const Strategy&, const Strategy&) = default;
};

// Micro-batches of a rank in one step.
[[nodiscard]] int64_t accumulation_steps(const Strategy& strategy, const Job& job);

// Where the pipeline's parts begin, pp x interleave + 1 entries: the strategy's own, or as even as
// the layers go.
[[nodiscard]] std::vector<int> stage_bounds(const ModelSpec& model, const Strategy& strategy);

// Why Plimsoll's executor cannot run the strategy, as a clause that follows "because"; empty when
// it can. The one place that knows: the search plans such strategies only where nothing would run
// them (GPU clusters).
[[nodiscard]] std::string why_not_runnable(const Strategy& strategy);

// Throws Error (exit 2) when the parts do not agree with one another, the job or the model, or when
// this version plans no such split (context parallel).
void check_strategy(const ModelSpec& model, const Job& job, const Strategy& strategy);

}  // namespace plimsoll
