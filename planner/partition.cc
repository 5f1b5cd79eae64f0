#include "planner/partition.h"

#include "base/checked.h"
#include "planner/stage_options.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace plimsoll {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The sums that a stage can reach fit 63 bits; after this, arithmetic is plain.
void check_problem(const PartitionProblem& problem) {
  PLIMSOLL_CHECK(!problem.stages.empty() && problem.micro_batches > 0,
                 "{} stages, {} micro-batches", problem.stages.size(), problem.micro_batches);
  int64_t in_flight = 1;
  int64_t fixed = 0;
  int64_t saved = 0;
  for (const PartitionStage& stage : problem.stages) {
    PLIMSOLL_CHECK(stage.in_flight > 0 && stage.limit_bytes >= 0, "in_flight {}, limit {}",
                   stage.in_flight, stage.limit_bytes);
    PLIMSOLL_CHECK(stage.state_bytes >= 0 && stage.saved_bytes >= 0 && stage.working_bytes >= 0 &&
                       stage.seconds >= 0,
                   "negative load of a stage");
    in_flight = std::max(in_flight, stage.in_flight);
    fixed = checked_add(fixed, checked_add(stage.state_bytes, stage.working_bytes));
    saved = checked_add(saved, stage.saved_bytes);
  }
  for (const PartitionLayer& layer : problem.layers) {
    const PartitionBoundary& boundary = layer.boundary;
    PLIMSOLL_CHECK(!layer.options.empty(), "a layer without options");
    PLIMSOLL_CHECK(layer.state_bytes >= 0 && layer.seconds >= 0 && boundary.in_flight_bytes >= 0 &&
                       boundary.receiver_bytes >= 0 && boundary.sender_bytes >= 0 &&
                       boundary.receiver_seconds >= 0 && boundary.sender_seconds >= 0,
                   "negative figure of a layer");
    fixed = checked_add(fixed, checked_add(boundary.receiver_bytes, boundary.sender_bytes));
    fixed = checked_add(fixed, layer.state_bytes);
    saved = checked_add(saved, boundary.in_flight_bytes);
    for (const PartitionOption& option : layer.options) {
      PLIMSOLL_CHECK(
          option.saved_bytes >= 0 && option.working_bytes >= 0 && option.extra_seconds >= 0,
          "negative figure of an option");
      fixed = checked_add(fixed, option.working_bytes);
      saved = checked_add(saved, option.saved_bytes);
    }
  }
  (void)checked_add(fixed, checked_mul(in_flight, saved));
}

// A stage with its layers but without their options.
struct StageLoad {
  int64_t room = 0;       // for saved bytes of all in flight and the largest working set
  int64_t own_saved = 0;  // of one micro-batch
  double seconds = 0;
};

StageLoad stage_load(const PartitionProblem& problem, size_t stage_index, size_t first,
                     size_t last) {
  const PartitionStage& stage = problem.stages[stage_index];
  StageLoad load{stage.limit_bytes - stage.state_bytes, stage.saved_bytes, stage.seconds};
  if (stage_index > 0) {
    const PartitionBoundary& boundary = problem.layers[first].boundary;
    load.room -= boundary.receiver_bytes;
    load.own_saved += boundary.in_flight_bytes;
    load.seconds += boundary.receiver_seconds;
  }
  if (stage_index + 1 < problem.stages.size()) {
    const PartitionBoundary& boundary = problem.layers[last].boundary;
    load.room -= boundary.sender_bytes;
    load.seconds += boundary.sender_seconds;
  }
  for (size_t i = first; i < last; ++i) {
    load.room -= problem.layers[i].state_bytes;
    load.seconds += problem.layers[i].seconds;
  }
  return load;
}

struct Path {
  std::vector<int> first_layer;
  double sum = 0;
  double max = 0;
};

enum class Fold { kSum, kMax };

// The search over boundaries. The time of stage r with n layers from layer a on is a table, first
// filled with lower bounds; wherever a shortest path runs over a bound, that entry is made exact
// and the path sought again. A path without bounds is then the shortest of all.
class PartitionSearch {
 public:
  // `optimistic`: entries whose knapsack was given up take its bound instead of its best choice.
  PartitionSearch(const PartitionProblem& problem, int64_t max_choices, bool optimistic);

  [[nodiscard]] std::optional<Path> solve();
  [[nodiscard]] double objective(const Path& path) const {
    return path.sum + static_cast<double>(problem_.micro_batches - 1) * path.max;
  }
  // Whether every entry used so far is the knapsack's optimum.
  [[nodiscard]] bool exact() const { return exact_; }
  [[nodiscard]] std::optional<internal::StageOptions> options(size_t stage, size_t first,
                                                              size_t last) const;

 private:
  void find_sources();
  void fill_bounds(size_t source);
  [[nodiscard]] size_t entry(size_t stage, size_t first, size_t count) const {
    return (stage * num_sources_ + source_of_layer_[first]) * width_ + count - 1;
  }
  [[nodiscard]] std::optional<Path> shortest(Fold fold, double cap);
  [[nodiscard]] std::optional<Path> shortest_over_table(Fold fold, double cap) const;
  bool make_exact(const Path& path);
  void explore(double low, double high, double sum_bound, std::optional<Path>& best);
  void improve(const Path& path, std::optional<Path>& best) const {
    if (!best || objective(path) < objective(*best)) best = path;
  }

  const PartitionProblem& problem_;
  int64_t max_choices_;
  bool optimistic_;
  bool exact_ = true;
  size_t num_layers_;
  size_t num_stages_;
  size_t width_;  // most layers of a stage
  size_t num_sources_ = 0;
  std::vector<size_t> source_of_layer_;  // index of the first layer that begins the same chain
  std::vector<size_t> layer_of_source_;
  std::vector<double> seconds_;  // by entry()
  std::vector<char> is_exact_;
};

PartitionSearch::PartitionSearch(const PartitionProblem& problem, int64_t max_choices,
                                 bool optimistic)
    : problem_(problem),
      max_choices_(max_choices),
      optimistic_(optimistic),
      num_layers_(problem.layers.size()),
      num_stages_(problem.stages.size()),
      width_(num_layers_ - num_stages_ + 1) {
  find_sources();
  seconds_.assign(num_stages_ * num_sources_ * width_, kInfinity);
  is_exact_.assign(seconds_.size(), 0);
  for (size_t source = 0; source < num_sources_; ++source) fill_bounds(source);
}

// Layer a begins the same chain as an earlier layer s when the layers from a on are a prefix of the
// layers from s on; a stage's time depends on its layers, on the boundary behind it, and on its
// index alone. (Only stage 0 begins at layer 0, and only the last ends at the end.)
void PartitionSearch::find_sources() {
  const auto& layers = problem_.layers;
  source_of_layer_.resize(num_layers_);
  for (size_t a = 0; a < num_layers_; ++a) {
    size_t source = 0;
    while (source < layer_of_source_.size() &&
           !std::equal(layers.begin() + static_cast<std::ptrdiff_t>(a), layers.end(),
                       layers.begin() + static_cast<std::ptrdiff_t>(layer_of_source_[source]))) {
      ++source;
    }
    source_of_layer_[a] = source;
    if (source == layer_of_source_.size()) layer_of_source_.push_back(a);
  }
  num_sources_ = layer_of_source_.size();
}

void PartitionSearch::fill_bounds(size_t source) {
  const size_t first = layer_of_source_[source];
  internal::Relaxation relaxation;
  int64_t least_working = 0;
  for (size_t last = first + 1; last <= std::min(num_layers_, first + width_); ++last) {
    const PartitionLayer& layer = problem_.layers[last - 1];
    (void)relaxation.add(layer, static_cast<int>(last - 1), std::numeric_limits<int64_t>::max());
    const auto smallest = std::min_element(
        layer.options.begin(), layer.options.end(),
        [](const auto& a, const auto& b) { return a.working_bytes < b.working_bytes; });
    least_working = std::max(least_working, smallest->working_bytes);
    for (size_t stage = 0; stage < num_stages_; ++stage) {
      if (stage + 1 < num_stages_ && last == num_layers_) continue;
      const StageLoad load = stage_load(problem_, stage, first, last);
      const PartitionStage& own = problem_.stages[stage];
      const int64_t room = load.room - std::max(least_working, own.working_bytes);
      if (room < 0) continue;
      const auto bound = relaxation.bound(room / own.in_flight - load.own_saved);
      if (bound.fits)
        seconds_[entry(stage, first, last - first)] = load.seconds + bound.lower_seconds;
    }
  }
}

std::optional<internal::StageOptions> PartitionSearch::options(size_t stage, size_t first,
                                                               size_t last) const {
  const StageLoad load = stage_load(problem_, stage, first, last);
  const PartitionStage& own = problem_.stages[stage];
  return internal::choose_options(
      std::span<const PartitionLayer>(problem_.layers).subspan(first, last - first), load.room,
      own.in_flight, load.own_saved, own.working_bytes, max_choices_);
}

// Makes the entries of a path exact; false when they were already.
bool PartitionSearch::make_exact(const Path& path) {
  bool changed = false;
  for (size_t stage = 0; stage < num_stages_; ++stage) {
    const auto first = static_cast<size_t>(path.first_layer[stage]);
    const size_t last =
        stage + 1 < num_stages_ ? static_cast<size_t>(path.first_layer[stage + 1]) : num_layers_;
    const size_t at = entry(stage, first, last - first);
    if (is_exact_[at] != 0) continue;
    is_exact_[at] = 1;
    changed = true;
    const auto choice = options(stage, first, last);
    if (!choice) {
      seconds_[at] = kInfinity;
      continue;
    }
    if (choice->lower_bound_seconds < choice->extra_seconds) exact_ = false;
    seconds_[at] = stage_load(problem_, stage, first, last).seconds +
                   (optimistic_ ? choice->lower_bound_seconds : choice->extra_seconds);
  }
  return changed;
}

// The path of the smallest sum or largest stage, over stages of at most `cap` seconds.
std::optional<Path> PartitionSearch::shortest_over_table(Fold fold, double cap) const {
  const size_t stride = num_layers_ + 1;
  std::vector<double> reached((num_stages_ + 1) * stride, kInfinity);
  std::vector<size_t> count_to((num_stages_ + 1) * stride, 0);
  reached[0] = 0;
  for (size_t stage = 0; stage < num_stages_; ++stage) {
    const size_t stages_after = num_stages_ - 1 - stage;
    for (size_t first = stage; first + stages_after < num_layers_; ++first) {
      const double before = reached[stage * stride + first];
      if (before == kInfinity) continue;
      const size_t most = num_layers_ - stages_after - first;
      double layers_alone = 0;
      for (size_t count = stages_after == 0 ? most : 1; count <= most; ++count) {
        layers_alone += problem_.layers[first + count - 1].seconds;
        // No longer stage can be faster than its layers, sums being good to this rounding.
        if (layers_alone > cap * (1 + 1e-9)) break;
        const double seconds = seconds_[entry(stage, first, count)];
        if (seconds > cap || seconds == kInfinity) continue;
        const double after = fold == Fold::kSum ? before + seconds : std::max(before, seconds);
        const size_t to = (stage + 1) * stride + first + count;
        if (after < reached[to]) {
          reached[to] = after;
          count_to[to] = count;
        }
      }
    }
  }
  if (reached.back() == kInfinity) return std::nullopt;
  Path path;
  path.first_layer.resize(num_stages_);
  size_t last = num_layers_;
  for (size_t stage = num_stages_; stage-- > 0;) {
    const size_t count = count_to[(stage + 1) * stride + last];
    const double seconds = seconds_[entry(stage, last - count, count)];
    path.sum += seconds;
    path.max = std::max(path.max, seconds);
    last -= count;
    path.first_layer[stage] = static_cast<int>(last);
  }
  return path;
}

std::optional<Path> PartitionSearch::shortest(Fold fold, double cap) {
  for (;;) {
    std::optional<Path> path = shortest_over_table(fold, cap);
    if (!path || !make_exact(*path)) return path;
  }
}

// Looks for better paths whose largest stage lies strictly between `low` and `high`; no path below
// `high` has a smaller sum than `sum_bound`.
void PartitionSearch::explore(double low, double high, double sum_bound,
                              std::optional<Path>& best) {
  const auto weight = static_cast<double>(problem_.micro_batches - 1);
  for (;;) {
    // A larger maximum than this cannot pay.
    high = std::min(high, (objective(*best) - sum_bound) / weight);
    if (!(low < high)) return;
    const std::optional<Path> right = shortest(Fold::kSum, std::nextafter(high, 0.0));
    if (!right || right->max <= low) return;
    improve(*right, best);
    high = right->max;
    sum_bound = right->sum;
    const double middle = low + (high - low) / 2;
    if (!(low < middle && middle < high)) return;
    const std::optional<Path> left = shortest(Fold::kSum, middle);
    if (left && left->max > low) {
      improve(*left, best);
      explore(low, left->max, left->sum, best);
    }
    low = middle;
  }
}

std::optional<Path> PartitionSearch::solve() {
  const std::optional<Path> smallest_sum = shortest(Fold::kSum, kInfinity);
  if (!smallest_sum || problem_.micro_batches == 1) return smallest_sum;
  const std::optional<Path> flattest = shortest(Fold::kMax, kInfinity);
  PLIMSOLL_CHECK(flattest.has_value(), "a path by sum and none by maximum");
  std::optional<Path> best = smallest_sum;
  improve(*shortest(Fold::kSum, flattest->max), best);
  explore(flattest->max, smallest_sum->max, smallest_sum->sum, best);
  return best;
}

}  // namespace

int64_t in_flight_1f1b(int stage, int num_stages, int64_t micro_batches) {
  return std::min<int64_t>(micro_batches, num_stages - stage);
}

int64_t in_flight_gpipe(int /*stage*/, int /*num_stages*/, int64_t micro_batches) {
  return micro_batches;
}

PartitionSolution evaluate_partition(const PartitionProblem& problem,
                                     std::vector<int> first_layer_of_stage,
                                     std::vector<int> option_of_layer) {
  PLIMSOLL_CHECK(first_layer_of_stage.size() == problem.stages.size() &&
                     option_of_layer.size() == problem.layers.size(),
                 "{} boundaries, {} options", first_layer_of_stage.size(), option_of_layer.size());
  PartitionSolution solution;
  solution.first_layer_of_stage = std::move(first_layer_of_stage);
  solution.option_of_layer = std::move(option_of_layer);
  double sum = 0;
  double max = 0;
  for (size_t stage = 0; stage < problem.stages.size(); ++stage) {
    const PartitionStage& own = problem.stages[stage];
    const auto first = static_cast<size_t>(solution.first_layer_of_stage[stage]);
    const size_t last = stage + 1 < problem.stages.size()
                            ? static_cast<size_t>(solution.first_layer_of_stage[stage + 1])
                            : problem.layers.size();
    PLIMSOLL_CHECK(first < last && last <= problem.layers.size(), "stage {} has layers {} to {}",
                   stage, first, last);
    const StageLoad load = stage_load(problem, stage, first, last);
    int64_t saved = load.own_saved;
    int64_t working = own.working_bytes;
    double extra = 0;
    for (size_t i = first; i < last; ++i) {
      const PartitionOption& option =
          problem.layers[i].options.at(static_cast<size_t>(solution.option_of_layer[i]));
      saved += option.saved_bytes;
      working = std::max(working, option.working_bytes);
      extra += option.extra_seconds;
    }
    solution.bytes_of_stage.push_back(own.limit_bytes - load.room + own.in_flight * saved +
                                      working);
    solution.seconds_of_stage.push_back(load.seconds + extra);
    sum += solution.seconds_of_stage.back();
    max = std::max(max, solution.seconds_of_stage.back());
  }
  solution.seconds = sum + static_cast<double>(problem.micro_batches - 1) * max;
  solution.lower_bound_seconds = solution.seconds;
  return solution;
}

std::optional<PartitionSolution> solve_partition(const PartitionProblem& problem,
                                                 int64_t max_choices) {
  check_problem(problem);
  if (problem.layers.size() < problem.stages.size()) return std::nullopt;
  PartitionSearch search(problem, max_choices, /*optimistic=*/false);
  const std::optional<Path> path = search.solve();
  if (!path) return std::nullopt;
  std::vector<int> option_of_layer;
  for (size_t stage = 0; stage < problem.stages.size(); ++stage) {
    const auto first = static_cast<size_t>(path->first_layer[stage]);
    const size_t last = stage + 1 < problem.stages.size()
                            ? static_cast<size_t>(path->first_layer[stage + 1])
                            : problem.layers.size();
    const auto choice = search.options(stage, first, last);
    PLIMSOLL_CHECK(choice.has_value(), "stage {} of the path fits no more", stage);
    option_of_layer.insert(option_of_layer.end(), choice->option_of_layer.begin(),
                           choice->option_of_layer.end());
  }
  PartitionSolution solution =
      evaluate_partition(problem, path->first_layer, std::move(option_of_layer));
  if (!search.exact()) {
    PartitionSearch bounds(problem, max_choices, /*optimistic=*/true);
    const std::optional<Path> bound = bounds.solve();
    PLIMSOLL_CHECK(bound.has_value(), "bounds exclude a partition that fits");
    solution.lower_bound_seconds = std::min(solution.seconds, bounds.objective(*bound));
  }
  return solution;
}

MinMaxPartition minmax_partition(const std::vector<double>& weights, int num_parts) {
  PLIMSOLL_CHECK(num_parts > 0 && static_cast<size_t>(num_parts) <= weights.size(),
                 "{} weights in {} parts", weights.size(), num_parts);
  const size_t n = weights.size();
  const auto parts = static_cast<size_t>(num_parts);
  // Of the first j weights in the parts so far: the smallest largest sum, and where the last
  // begins.
  std::vector<double> before(n + 1, kInfinity);
  before[0] = 0;
  std::vector<std::vector<size_t>> first(parts, std::vector<size_t>(n + 1, 0));
  for (size_t part = 0; part < parts; ++part) {
    std::vector<double> after(n + 1, kInfinity);
    for (size_t j = part + 1; j + (parts - 1 - part) <= n; ++j) {
      double sum = 0;
      for (size_t i = j; i-- > part;) {
        sum += weights[i];
        if (sum >= after[j]) break;  // longer last parts are no better
        if (const double value = std::max(before[i], sum); value < after[j]) {
          after[j] = value;
          first[part][j] = i;
        }
      }
    }
    before = std::move(after);
  }
  MinMaxPartition result{before[n], std::vector<int>(parts)};
  size_t end = n;
  for (size_t part = parts; part-- > 0;) {
    end = first[part][end];
    result.first_of_part[part] = static_cast<int>(end);
  }
  return result;
}

}  // namespace plimsoll
