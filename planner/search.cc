#include "planner/search.h"

#include "base/error.h"
#include "models/autodiff.h"

#include <algorithm>
#include <limits>
#include <map>

namespace plimsoll {

namespace {

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> result;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    result.push_back(d);
    if (d != n / d) result.push_back(n / d);
  }
  std::sort(result.begin(), result.end());
  return result;
}

// FLOPs of one sample, forward and backward, over the whole model: no split and no choice of the
// space needs fewer.
double flops_a_sample(const ModelSpec& model, const Job& job) {
  BuildOptions options;
  options.micro_batch = 1;
  options.seq = job.seq;
  options.float_type = job.precision;
  const TrainingGraph graph = differentiate(build_model(model, options), job.gradient_type);
  double flops = 0;
  for (const KernelCall& call : graph.forward) flops += call.flops;
  for (const KernelCall& call : graph.backward) flops += call.flops;
  return flops;
}

class Search {
 public:
  Search(const ModelSpec& model, const Cluster& cluster, const Job& job, const Pins& pins,
         int64_t limit, SearchObjective objective, bool exhaustive, const SearchProgress& progress)
      : model_(model),
        cluster_(cluster),
        job_(job),
        pins_(pins),
        limit_(limit),
        objective_(objective),
        exhaustive_(exhaustive),
        progress_(progress) {}

  SearchResult run() {
    check_job(model_, job_);
    num_parameters_ = count_parameters(model_);
    sample_seconds_ = flops_a_sample(model_, job_) / (peak_flops(cluster_.device, job_.precision) *
                                                      cluster_.device.matmul_efficiency);
    layers_ = layer_choices();
    const std::vector<Outer> outers = outer_choices();
    result_.counts.covered =
        checked_mul(static_cast<int64_t>(outers.size()), static_cast<int64_t>(layers_.size()));
    for (const Outer& outer : outers) {
      if (!exhaustive_ && bound_of(outer) > best_) break;  // sorted: nothing behind it is better
      if (!exhaustive_ && cannot_fit(outer)) continue;
      search_layers(outer);
    }
    if (candidates_.empty()) evaluate(outers.back().strategy, layers_.back());
    result_.counts.pruned = result_.counts.covered - result_.counts.evaluated;
    finish();
    return std::move(result_);
  }

 private:
  // A strategy but for recompute, with what no recompute can bring it below.
  struct Outer {
    Strategy strategy;
    double seconds = 0;       // of the step
    int64_t state_bytes = 0;  // of the fullest rank
  };

  [[nodiscard]] double bound_of(const Outer& outer) const {
    return objective_ == SearchObjective::kTime ? outer.seconds
                                                : static_cast<double>(outer.state_bytes);
  }

  // The compute of the whole step in the time of its matrix products at the attainable rate. A
  // pipeline takes all stages of one micro-batch and m - 1 more of its slowest, which is at least
  // the average one.
  [[nodiscard]] double seconds_bound(const Strategy& s) const {
    const double micro_batch_seconds =
        sample_seconds_ * static_cast<double>(s.micro_batch) / static_cast<double>(s.tp * s.cp);
    const auto m = static_cast<double>(accumulation_steps(s, job_));
    return micro_batch_seconds * (s.pp - 1 + m) / s.pp;
  }

  // Weights and optimizer states of a rank that holds an average stage: the fullest has no less.
  // (Gradients of one micro-batch live only a layer's time; a search must not count them.)
  [[nodiscard]] int64_t state_bytes_bound(const Strategy& s) const {
    const int64_t weights = dtype_bytes(job_.precision);
    const int64_t states =
        state_bytes_per_parameter(job_) - weights - dtype_bytes(job_.gradient_type);
    const auto parameters = static_cast<double>(num_parameters_) / (s.tp * s.pp * s.ep);
    const double bytes = static_cast<double>(weights) / (s.zero >= 3 ? s.dp * s.cp : 1) +
                         static_cast<double>(states) / (s.zero >= 1 ? s.dp * s.cp : 1);
    return static_cast<int64_t>(parameters * bytes);
  }

  [[nodiscard]] Strategy pinned_strategy() const {
    Strategy strategy;
    const auto take = [](auto& field, const auto& pin) {
      if (pin) field = *pin;
    };
    take(strategy.tp, pins_.tp);
    take(strategy.pp, pins_.pp);
    take(strategy.cp, pins_.cp);
    take(strategy.ep, pins_.ep);
    take(strategy.zero, pins_.zero);
    take(strategy.shard_group, pins_.shard_group);
    take(strategy.interleave, pins_.interleave);
    take(strategy.sequence_parallel, pins_.sequence_parallel);
    take(strategy.schedule, pins_.schedule);
    take(strategy.attention, pins_.attention);
    take(strategy.micro_batch, pins_.micro_batch);
    strategy.recompute.assign(static_cast<size_t>(model_.layers), Recompute::kNone);
    return strategy;
  }

  // Every pair of degrees that the devices allow. CPU devices are this machine's, for the executor
  // to run: what it cannot run is no choice there unless it was asked for.
  [[nodiscard]] std::vector<Strategy> split_choices() const {
    const Strategy pinned = pinned_strategy();
    // Expert and context parallel ranks are the pinned ones.
    const int64_t others = int64_t{std::max(1, pinned.ep)} * std::max(1, pinned.cp);
    if (cluster_.num_devices() % others != 0) return {};
    const int64_t devices = cluster_.num_devices() / others;
    std::vector<Strategy> splits;
    for (const int64_t tp : divisors(devices)) {
      if (pins_.tp ? tp != *pins_.tp : tp > cluster_.devices_per_node) continue;
      for (const int64_t pp : divisors(devices / tp)) {
        if (pins_.pp ? pp != *pins_.pp : pp > std::max<int64_t>(1, model_.layers)) continue;
        const int64_t dp = devices / tp / pp;
        if (pins_.dp && dp != *pins_.dp) continue;
        Strategy strategy = pinned;
        strategy.tp = static_cast<int>(tp);
        strategy.pp = static_cast<int>(pp);
        strategy.dp = static_cast<int>(dp);
        // Sharded norms and dropout cost no more messages and keep fewer activations.
        if (!pins_.sequence_parallel) {
          strategy.sequence_parallel = tp > 1 && sequence_tokens(model_, job_.seq) % tp == 0;
        }
        const bool asked_for = (pins_.tp || tp == 1) && (pins_.pp || pp == 1);
        if (cluster_.device.shares_cores && !asked_for) continue;
        splits.push_back(std::move(strategy));
      }
    }
    return splits;
  }

  [[nodiscard]] std::vector<Outer> outer_choices() {
    std::vector<Outer> outers;
    for (const Strategy& split : split_choices()) {
      if (job_.global_batch % split.num_sample_ranks() != 0) continue;
      for (const auto& [zero, prefetch] : zero_choices(split)) {
        for (const int64_t chunk : chunk_choices()) {
          for (const int64_t micro_batch : micro_batch_choices(split)) {
            Outer outer{split, 0, 0};
            outer.strategy.zero = zero;
            outer.strategy.zero_prefetch = prefetch;
            outer.strategy.loss_chunks = chunk;
            outer.strategy.micro_batch = micro_batch;
            outer.seconds = seconds_bound(outer.strategy);
            outer.state_bytes = state_bytes_bound(outer.strategy);
            outers.push_back(std::move(outer));
          }
        }
      }
    }
    if (outers.empty()) explain_empty_space();
    std::stable_sort(outers.begin(), outers.end(),
                     [&](const Outer& a, const Outer& b) { return bound_of(a) < bound_of(b); });
    return outers;
  }

  // Throws what is wrong with the pins, in the words of whoever refuses them.
  [[noreturn]] void explain_empty_space() const {
    Strategy strategy = pinned_strategy();
    const int64_t devices = cluster_.num_devices();
    const int64_t others = int64_t{strategy.tp} * strategy.pp * strategy.cp * strategy.ep;
    strategy.dp = pins_.dp.value_or(
        static_cast<int>(others > 0 && devices % others == 0 ? devices / others : 1));
    if (strategy.dp >= 1 && others >= 1 && strategy.num_ranks() != devices) {
      throw bad_input(fmt::format("the pinned degrees make {} ranks, the cluster {} has {} devices",
                                  strategy.num_ranks(), cluster_.text, devices),
                      "leave --dp out, or name a cluster of that size");
    }
    if (strategy.dp >= 1 && job_.global_batch % strategy.num_sample_ranks() != 0) {
      throw bad_input(fmt::format("--global-batch {} cannot be split over {} data-parallel ranks",
                                  job_.global_batch, strategy.num_sample_ranks()),
                      fmt::format("use a multiple of {}", strategy.num_sample_ranks()));
    }
    check_strategy(model_, job_, strategy);
    throw bad_input("the pinned degrees leave no strategy", "pin fewer of them");
  }

  [[nodiscard]] std::vector<int64_t> micro_batch_choices(const Strategy& split) const {
    const int64_t share = job_.global_batch / split.num_sample_ranks();
    if (!pins_.micro_batch) return divisors(share);
    const int64_t pinned = *pins_.micro_batch;
    if (pinned < 1 || share % pinned != 0) return {};
    return {pinned};
  }

  [[nodiscard]] std::vector<int64_t> chunk_choices() const {
    if (pins_.loss_chunks) return {*pins_.loss_chunks};
    if (model_.objective != Objective::kNextToken) return {1};
    std::vector<int64_t> chunks = {1};
    for (const int64_t chunk : {4, 16}) {
      if (chunk <= job_.seq) chunks.push_back(chunk);
    }
    return chunks;
  }

  [[nodiscard]] std::vector<std::pair<int, bool>> zero_choices(const Strategy& split) const {
    std::vector<std::pair<int, bool>> choices;
    for (const auto& [zero, prefetch] :
         {std::pair{0, false}, std::pair{1, false}, std::pair{2, false}, std::pair{2, true},
          std::pair{3, false}, std::pair{3, true}}) {
      if (pins_.zero ? zero != *pins_.zero : zero > 0 && split.num_replicas() == 1) continue;
      if (zero == 0 && pins_.shard_group && !pins_.zero) continue;
      if (!pins_.zero && zero > 1 && split.pp > 1) continue;  // not planned by this version
      if (cluster_.device.shares_cores && !pins_.zero && zero > 0) continue;
      choices.emplace_back(zero, prefetch);
    }
    return choices;
  }

  // Numbers of layers to recompute, ascending; of a pipeline, the most of any stage.
  [[nodiscard]] std::vector<int64_t> layer_choices() const {
    if (pins_.recompute) {
      return {*pins_.recompute == Recompute::kNone ? 0 : model_.layers};
    }
    std::vector<int64_t> counts;
    for (int64_t k = 0; k <= model_.layers; ++k) counts.push_back(k);
    return counts;
  }

  // States alone exceed the limit, or a smaller micro-batch did not fit with all recomputed.
  [[nodiscard]] bool cannot_fit(const Outer& outer) const {
    if (outer.state_bytes > limit_) return true;
    const auto dead = too_large_.find(split_key(outer.strategy));
    // The whole share at once accumulates nothing, so it may fit where smaller ones do not.
    const bool accumulates = accumulation_steps(outer.strategy, job_) > 1;
    return accumulates && dead != too_large_.end() && outer.strategy.micro_batch >= dead->second;
  }

  using SplitKey = std::tuple<int, int, int, bool, int64_t>;
  [[nodiscard]] static SplitKey split_key(const Strategy& s) {
    return {s.tp, s.pp, s.zero, s.zero_prefetch, s.loss_chunks};
  }

  // Evaluates the numbers of layers that can be best.
  void search_layers(const Outer& outer) {
    const auto fits = [&](size_t i) {
      const Candidate* candidate = evaluate(outer.strategy, layers_[i]);
      return candidate != nullptr && candidate->predicted.peak_bytes <= limit_;
    };
    if (exhaustive_) {
      for (size_t i = 0; i < layers_.size(); ++i) (void)fits(i);
      return;
    }
    const bool first = fits(0);
    if (objective_ == SearchObjective::kMemory) {
      (void)fits(layers_.size() - 1);
      return;
    }
    if (first) return;
    // Every layer recomputed only adds time.
    const Candidate* fastest = evaluate(outer.strategy, layers_.front());
    if (fastest == nullptr || fastest->predicted.step_seconds > best_) return;
    if (layers_.size() == 1 || !fits(layers_.size() - 1)) {
      const auto [at, made] =
          too_large_.emplace(split_key(outer.strategy), outer.strategy.micro_batch);
      if (!made) at->second = std::min(at->second, outer.strategy.micro_batch);
      return;
    }
    // Recomputing one layer more never needs more memory, once one is recomputed at all.
    size_t low = 0;
    size_t high = layers_.size() - 1;
    while (high - low > 1) {
      const size_t middle = (low + high) / 2;
      (fits(middle) ? high : low) = middle;
    }
  }

  // The first `count` layers of every stage: their backward comes last, when later layers'
  // activations are gone.
  void set_recompute(Strategy& strategy, int64_t count) const {
    const std::vector<int> bounds = stage_bounds(model_, strategy);
    for (size_t stage = 0; stage + 1 < bounds.size(); ++stage) {
      const int64_t layers = bounds[stage + 1] - bounds[stage];
      std::fill_n(strategy.recompute.begin() + bounds[stage], std::min(count, layers),
                  pins_.recompute.value_or(Recompute::kFull));
    }
  }

  // Null when model and split do not go together.
  const Candidate* evaluate(Strategy strategy, int64_t recomputed) {
    try {
      check_strategy(model_, job_, strategy);
      set_recompute(strategy, recomputed);
      const auto key =
          std::tuple(split_key(strategy), strategy.micro_batch, strategy.num_recomputed());
      if (const auto at = candidates_.find(key); at != candidates_.end()) return &at->second;
      const std::vector<StepProgram> stages = lower_plan(model_, cluster_, job_, strategy);
      Candidate candidate{strategy, predict(stages, cluster_, job_)};
      ++result_.counts.evaluated;
      if (progress_) progress_(result_.counts.evaluated, result_.counts.covered);
      if (candidate.predicted.peak_bytes <= limit_) {
        best_ = std::min(best_, objective_ == SearchObjective::kTime
                                    ? candidate.predicted.step_seconds
                                    : static_cast<double>(candidate.predicted.peak_bytes));
      }
      return &candidates_.emplace(key, std::move(candidate)).first->second;
    } catch (const Error&) {
      // A split that was asked for is refused in its own words; one of the space is left out.
      const bool searched = (strategy.tp > 1 && !pins_.tp) || (strategy.pp > 1 && !pins_.pp);
      if (!searched) throw;
      return nullptr;
    }
  }

  [[nodiscard]] auto rank_of(const Candidate& c) const {
    const double seconds = c.predicted.step_seconds;
    const auto bytes = static_cast<double>(c.predicted.peak_bytes);
    const bool time_first = objective_ == SearchObjective::kTime;
    return std::tuple(time_first ? seconds : bytes, time_first ? bytes : seconds,
                      split_key(c.strategy), c.strategy.micro_batch, c.strategy.num_recomputed());
  }

  void finish() {
    std::vector<Candidate> fitting;
    const Candidate* smallest = nullptr;
    for (const auto& [key, candidate] : candidates_) {
      if (smallest == nullptr || candidate.predicted.peak_bytes < smallest->predicted.peak_bytes) {
        smallest = &candidate;
      }
      if (candidate.predicted.peak_bytes <= limit_) fitting.push_back(candidate);
    }
    if (smallest == nullptr) throw bad_input("no split of the devices suits the model");
    result_.smallest = *smallest;
    std::sort(fitting.begin(), fitting.end(),
              [&](const Candidate& a, const Candidate& b) { return rank_of(a) < rank_of(b); });
    if (fitting.empty()) return;
    result_.best = Plan{.model = model_,
                        .cluster = cluster_,
                        .job = job_,
                        .memory_limit_bytes = limit_,
                        .strategy = fitting.front().strategy,
                        .predicted = fitting.front().predicted,
                        .search = result_.counts};
    for (size_t i = 1; i < fitting.size() && i <= 5; ++i) {
      result_.alternatives.push_back(std::move(fitting[i]));
    }
  }

  const ModelSpec& model_;
  const Cluster& cluster_;
  const Job& job_;
  const Pins& pins_;
  int64_t limit_;
  SearchObjective objective_;
  bool exhaustive_;
  const SearchProgress& progress_;
  int64_t num_parameters_ = 0;
  double sample_seconds_ = 0;  // of one sample on one device, all its matrix products
  double best_ = std::numeric_limits<double>::infinity();
  std::vector<int64_t> layers_;
  SearchResult result_;
  std::map<std::tuple<SplitKey, int64_t, int>, Candidate> candidates_;
  std::map<SplitKey, int64_t> too_large_;
};

}  // namespace

SearchObjective parse_objective(std::string_view name) {
  if (name == "time") return SearchObjective::kTime;
  if (name == "memory") return SearchObjective::kMemory;
  throw bad_input(fmt::format("unknown objective '{}'", name), "use time or memory");
}

SearchResult search(const ModelSpec& model, const Cluster& cluster, const Job& job,
                    const Pins& pins, int64_t memory_limit_bytes, SearchObjective objective,
                    bool exhaustive, const SearchProgress& progress) {
  return Search(model, cluster, job, pins, memory_limit_bytes, objective, exhaustive, progress)
      .run();
}

}  // namespace plimsoll
