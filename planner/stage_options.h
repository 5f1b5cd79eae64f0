// The options of a stage's layers: a multiple-choice knapsack over bytes that are kept.
//
// The linear relaxation (options on each layer's convex hull, upgraded in order of time gained a
// byte) bounds it from below and, rounded down, from above; the exact answer is a dynamic program
// over undominated (bytes, time) pairs that the two bounds thin out. Only planner/partition.cc
// includes this.
#pragma once

#include "planner/partition.h"

#include <optional>
#include <span>
#include <vector>

namespace plimsoll::internal {

// One step along a layer's convex hull: more bytes, less time.
struct Upgrade {
  int64_t bytes = 0;
  double gain_seconds = 0;
  int layer = 0;
  int option = 0;  // reached by the step
};

// The relaxation over a set of layers. Layers are added one at a time.
class Relaxation {
 public:
  // Adds a layer with the options of at most `most_working_bytes`; false when it has none of them.
  bool add(const PartitionLayer& layer, int index, int64_t most_working_bytes);

  struct Bound {
    bool fits = false;
    double lower_seconds = 0;    // of the relaxation
    double rounded_seconds = 0;  // of its integral part, which is a choice
    size_t num_upgrades = 0;     // of that choice
  };
  // Extra seconds of all layers whose saved bytes add up to at most `bytes`.
  [[nodiscard]] Bound bound(int64_t bytes) const;

  // Writes the options of the choice with that many upgrades.
  void write_options(size_t num_upgrades, std::vector<int>& option_of_layer) const;

 private:
  int64_t smallest_bytes_ = 0;
  double slowest_seconds_ = 0;
  std::vector<std::pair<int, int>> smallest_option_;  // of each layer: (layer, option)
  std::vector<Upgrade> upgrades_;                     // by falling gain a byte
  std::vector<int64_t> bytes_before_;                 // sums over upgrades, one longer
  std::vector<double> gain_before_;
};

struct StageOptions {
  double extra_seconds = 0;
  double lower_bound_seconds = 0;  // equal to extra_seconds unless max_choices was hit
  std::vector<int> option_of_layer;
};

// The fastest options for `layers` with in_flight * (own_saved + saved) + working <= bytes, where
// working is the largest of the layers' and `own_working`. Nothing when none fits.
[[nodiscard]] std::optional<StageOptions> choose_options(std::span<const PartitionLayer> layers,
                                                         int64_t bytes, int64_t in_flight,
                                                         int64_t own_saved, int64_t own_working,
                                                         int64_t max_choices);

}  // namespace plimsoll::internal
