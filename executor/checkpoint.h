// Checkpoints: folders that are complete or do not exist.
//
//   checkpoints/step_00000100/model.safetensors      parameters and states, in exported layout
//                             optimizer.safetensors  moments
//                             manifest.json          state of the run, size and SHA-256 of the
//                             files
//
// Tensors are whole whatever the plan: shards of several ranks are put together when they are
// written. A checkpoint is written under another name, synced and renamed, so that a crash or a
// full disk leaves the older ones as they were. Tensors carry their global names: any plan that
// holds them can load them.
#pragma once

#include "base/noise.h"
#include "executor/weights.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

// What a run is, apart from its tensors.
struct RunState {
  int64_t step = 0;  // steps done; the next one has this number
  uint64_t seed = 0;
  int64_t samples = 0;  // position in the data: step times global batch
  NoiseEstimator::State noise;
  std::optional<double> best_validation_loss;
  int64_t stale_evaluations = 0;  // since the best
  std::string plan_hash;
  friend bool operator==(const RunState&, const RunState&) = default;
};

struct Checkpoint {
  std::string path;
  RunState state;
};

// Writes a checkpoint into `folder` (made when it does not exist) and removes all but the newest
// `keep` (at least 1). Throws Error (exit 4) on a full disk or any other failure, and then leaves
// the older checkpoints as they were. `parts` are those of all ranks: what none of them holds whole
// is put together from their boxes, and is an Error (exit 2) when an element is nobody's.
std::string save_checkpoint(const std::string& folder, const RunState& state,
                            const std::vector<PersistentPart>& parts, int keep);

struct FoundCheckpoint {
  std::optional<Checkpoint> checkpoint;
  std::vector<std::string> warnings;  // what was passed over, and why
};

// The newest checkpoint whose manifest reads and whose files have the size and hash it names.
[[nodiscard]] FoundCheckpoint find_newest_checkpoint(const std::string& folder);

// Fills every part. Throws Error (exit 2) naming the tensor when the checkpoint is of another
// model.
void load_checkpoint(const Checkpoint& checkpoint, const std::vector<PersistentPart>& parts);

}  // namespace plimsoll
