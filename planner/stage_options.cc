#include "planner/stage_options.h"

#include "base/error.h"

#include <algorithm>
#include <limits>

namespace plimsoll::internal {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Point {
  int64_t bytes = 0;
  double seconds = 0;
  int option = 0;
};

// The undominated options within a working set, by rising bytes and falling time.
std::vector<Point> undominated(const PartitionLayer& layer, int64_t most_working_bytes) {
  std::vector<Point> points;
  for (size_t i = 0; i < layer.options.size(); ++i) {
    const PartitionOption& option = layer.options[i];
    if (option.working_bytes > most_working_bytes) continue;
    points.push_back({option.saved_bytes, option.extra_seconds, static_cast<int>(i)});
  }
  std::stable_sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.seconds < b.seconds;
  });
  std::vector<Point> kept;
  for (const Point& point : points) {
    if (kept.empty() || point.seconds < kept.back().seconds) kept.push_back(point);
  }
  return kept;
}

double slope(const Point& from, const Point& to) {
  return (from.seconds - to.seconds) / static_cast<double>(to.bytes - from.bytes);
}

// The lower convex hull: time gained a byte falls from step to step.
std::vector<Point> convex_hull(const std::vector<Point>& points) {
  std::vector<Point> hull;
  for (const Point& point : points) {
    while (hull.size() >= 2 &&
           slope(hull[hull.size() - 2], hull.back()) <= slope(hull.back(), point)) {
      hull.pop_back();
    }
    hull.push_back(point);
  }
  return hull;
}

double gain_a_byte(const Upgrade& upgrade) {
  return upgrade.gain_seconds / static_cast<double>(upgrade.bytes);
}

}  // namespace

bool Relaxation::add(const PartitionLayer& layer, int index, int64_t most_working_bytes) {
  const std::vector<Point> hull = convex_hull(undominated(layer, most_working_bytes));
  if (hull.empty()) return false;
  smallest_bytes_ += hull[0].bytes;
  slowest_seconds_ += hull[0].seconds;
  smallest_option_.emplace_back(index, hull[0].option);
  size_t first_changed = upgrades_.size();
  for (size_t i = 1; i < hull.size(); ++i) {
    const Upgrade upgrade{hull[i].bytes - hull[i - 1].bytes, hull[i - 1].seconds - hull[i].seconds,
                          index, hull[i].option};
    // Behind its equals, so that a layer's own steps stay in order.
    const auto at = std::upper_bound(
        upgrades_.begin(), upgrades_.end(), upgrade,
        [](const Upgrade& a, const Upgrade& b) { return gain_a_byte(a) > gain_a_byte(b); });
    first_changed = std::min(first_changed, static_cast<size_t>(at - upgrades_.begin()));
    upgrades_.insert(at, upgrade);
  }
  bytes_before_.resize(upgrades_.size() + 1);
  gain_before_.resize(upgrades_.size() + 1);
  for (size_t i = first_changed; i < upgrades_.size(); ++i) {
    bytes_before_[i + 1] = bytes_before_[i] + upgrades_[i].bytes;
    gain_before_[i + 1] = gain_before_[i] + upgrades_[i].gain_seconds;
  }
  return true;
}

Relaxation::Bound Relaxation::bound(int64_t bytes) const {
  const int64_t room = bytes - smallest_bytes_;
  if (room < 0) return {};
  if (upgrades_.empty()) return {true, slowest_seconds_, slowest_seconds_, 0};
  const auto above = std::upper_bound(bytes_before_.begin(), bytes_before_.end(), room);
  const auto taken = static_cast<size_t>(above - bytes_before_.begin()) - 1;
  Bound bound{true, slowest_seconds_ - gain_before_[taken], 0, taken};
  bound.rounded_seconds = bound.lower_seconds;
  if (taken < upgrades_.size()) {
    const auto part = static_cast<double>(room - bytes_before_[taken]);
    bound.lower_seconds -= gain_a_byte(upgrades_[taken]) * part;
  }
  return bound;
}

void Relaxation::write_options(size_t num_upgrades, std::vector<int>& option_of_layer) const {
  for (const auto& [layer, option] : smallest_option_) {
    option_of_layer[static_cast<size_t>(layer)] = option;
  }
  for (size_t i = 0; i < num_upgrades; ++i) {
    option_of_layer[static_cast<size_t>(upgrades_[i].layer)] = upgrades_[i].option;
  }
}

namespace {

// A choice for the first layers of a stage.
struct Choice {
  int64_t bytes = 0;
  double seconds = 0;
  int parent = 0;  // in the list of one layer less
  int option = 0;
};

// The knapsack for one bound on the working set.
class Knapsack {
 public:
  Knapsack(std::span<const PartitionLayer> layers, int64_t most_working_bytes, int64_t bytes)
      : layers_(layers), most_working_bytes_(most_working_bytes), bytes_(bytes) {}

  // Improves `best` where this finds a faster choice; best.lower_bound_seconds becomes the smaller
  // of what it was and what this cannot rule out.
  void solve(int64_t max_choices, StageOptions& best) {
    const size_t n = layers_.size();
    // Most working sets are ruled out by the relaxation of the whole stage.
    Relaxation all;
    for (size_t i = 0; i < n; ++i) {
      if (!all.add(layers_[i], static_cast<int>(i), most_working_bytes_)) return;
    }
    const Relaxation::Bound bound = all.bound(bytes_);
    if (!bound.fits || bound.lower_seconds >= best.extra_seconds) return;
    rest_.resize(n + 1);
    for (size_t i = n; i-- > 0;) {
      rest_[i] = rest_[i + 1];
      (void)rest_[i].add(layers_[i], static_cast<int>(i), most_working_bytes_);
    }
    lists_.assign(1, {Choice{}});
    if (!keep(lists_[0][0], 0, best)) return;
    for (size_t i = 0; i < n; ++i) {
      extend(i, best);
      if (static_cast<int64_t>(lists_.back().size()) > max_choices) return give_up(best);
    }
  }

 private:
  // Whether a choice for the first `count` layers can lead to a better one than `best`; takes its
  // rounded completion when that is better already.
  bool keep(const Choice& choice, size_t count, StageOptions& best) {
    const Relaxation::Bound bound = rest_[count].bound(bytes_ - choice.bytes);
    if (!bound.fits) return false;
    if (choice.seconds + bound.lower_seconds >= best.extra_seconds) return false;
    if (choice.seconds + bound.rounded_seconds < best.extra_seconds) {
      best.extra_seconds = choice.seconds + bound.rounded_seconds;
      best.option_of_layer.resize(layers_.size());
      rest_[count].write_options(bound.num_upgrades, best.option_of_layer);
      Choice step = choice;
      for (size_t i = count; i-- > 0;) {
        best.option_of_layer[i] = step.option;
        step = lists_[i][static_cast<size_t>(step.parent)];
      }
    }
    return true;
  }

  void extend(size_t layer, StageOptions& best) {
    std::vector<Choice> candidates;
    const std::vector<Choice>& before = lists_.back();
    for (const Point& point : undominated(layers_[layer], most_working_bytes_)) {
      for (size_t i = 0; i < before.size(); ++i) {
        const int64_t bytes = before[i].bytes + point.bytes;
        if (bytes > bytes_) break;  // lists rise in bytes
        candidates.push_back(
            {bytes, before[i].seconds + point.seconds, static_cast<int>(i), point.option});
      }
    }
    std::sort(candidates.begin(), candidates.end(), [](const Choice& a, const Choice& b) {
      if (a.bytes != b.bytes) return a.bytes < b.bytes;
      if (a.seconds != b.seconds) return a.seconds < b.seconds;
      return a.option != b.option ? a.option < b.option : a.parent < b.parent;
    });
    std::vector<Choice> kept;
    double fastest = kInfinity;
    for (const Choice& choice : candidates) {
      if (choice.seconds >= fastest) continue;
      fastest = choice.seconds;
      if (keep(choice, layer + 1, best)) kept.push_back(choice);
    }
    lists_.push_back(std::move(kept));
  }

  // All that is better than `best` completes a choice of the last list.
  void give_up(StageOptions& best) const {
    const size_t count = lists_.size() - 1;
    for (const Choice& choice : lists_.back()) {
      const Relaxation::Bound bound = rest_[count].bound(bytes_ - choice.bytes);
      best.lower_bound_seconds =
          std::min(best.lower_bound_seconds, choice.seconds + bound.lower_seconds);
    }
  }

  std::span<const PartitionLayer> layers_;
  int64_t most_working_bytes_;
  int64_t bytes_;
  std::vector<Relaxation> rest_;            // of the layers from i on
  std::vector<std::vector<Choice>> lists_;  // of the first i layers
};

}  // namespace

std::optional<StageOptions> choose_options(std::span<const PartitionLayer> layers, int64_t bytes,
                                           int64_t in_flight, int64_t own_saved,
                                           int64_t own_working, int64_t max_choices) {
  PLIMSOLL_CHECK(in_flight > 0 && max_choices > 0, "in_flight {}, max_choices {}", in_flight,
                 max_choices);
  // The largest working set is one of these; for each, a plain knapsack remains.
  std::vector<int64_t> working{own_working};
  for (const PartitionLayer& layer : layers) {
    for (const PartitionOption& option : layer.options) {
      if (option.working_bytes > own_working) working.push_back(option.working_bytes);
    }
  }
  std::sort(working.begin(), working.end());
  working.erase(std::unique(working.begin(), working.end()), working.end());
  StageOptions best{kInfinity, kInfinity, {}};
  for (const int64_t most : working) {
    if (most > bytes) break;
    const int64_t room = (bytes - most) / in_flight - own_saved;
    if (room < 0) continue;
    Knapsack(layers, most, room).solve(max_choices, best);
  }
  if (best.extra_seconds == kInfinity) return std::nullopt;
  best.lower_bound_seconds = std::min(best.lower_bound_seconds, best.extra_seconds);
  return best;
}

}  // namespace plimsoll::internal
