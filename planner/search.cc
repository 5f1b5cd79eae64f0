#include "planner/search.h"

#include "base/error.h"

#include <algorithm>
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
    base_ = base_strategy();
    const std::vector<int64_t> micro_batches = micro_batch_choices();
    const std::vector<int64_t> chunks = chunk_choices();
    const std::vector<int64_t> layers = layer_choices();
    const std::vector<Sharding> shardings = sharding_choices();
    result_.counts.covered = static_cast<int64_t>(shardings.size() * micro_batches.size() *
                                                  chunks.size() * layers.size());
    for (const Sharding& sharding : shardings) {
      base_.zero = sharding.zero;
      base_.zero_prefetch = sharding.prefetch;
      for (const int64_t chunk : chunks) {
        bool fits = true;
        for (const int64_t micro_batch : micro_batches) {
          if (!fits && !exhaustive_) break;
          fits = search_layers(micro_batch, chunk, layers);
        }
      }
    }
    result_.counts.pruned = result_.counts.covered - result_.counts.evaluated;
    finish();
    return std::move(result_);
  }

 private:
  struct Sharding {
    int zero = 0;
    bool prefetch = false;
  };

  Strategy base_strategy() const {
    Strategy strategy;
    const auto take = [](auto& field, const auto& pin) {
      if (pin) field = *pin;
    };
    take(strategy.tp, pins_.tp);
    take(strategy.pp, pins_.pp);
    take(strategy.cp, pins_.cp);
    take(strategy.ep, pins_.ep);
    take(strategy.zero, pins_.zero);
    take(strategy.interleave, pins_.interleave);
    take(strategy.sequence_parallel, pins_.sequence_parallel);
    take(strategy.schedule, pins_.schedule);
    take(strategy.attention, pins_.attention);
    const int64_t devices = cluster_.num_devices();
    strategy.dp = pins_.dp.value_or(static_cast<int>(devices));
    strategy.recompute.assign(static_cast<size_t>(model_.layers), Recompute::kNone);
    if (strategy.dp < 1) throw bad_input(fmt::format("--dp {} is not positive", strategy.dp));
    if (job_.global_batch % strategy.dp != 0) {
      throw bad_input(fmt::format("--global-batch {} cannot be split over {} data-parallel ranks",
                                  job_.global_batch, strategy.dp),
                      fmt::format("use a multiple of {}", strategy.dp));
    }
    strategy.micro_batch = pins_.micro_batch.value_or(1);
    check_strategy(model_, job_, strategy);
    if (strategy.num_ranks() != devices) {
      throw bad_input(fmt::format("the pinned degrees make {} ranks, the cluster {} has {} devices",
                                  strategy.num_ranks(), cluster_.text, devices),
                      "leave --dp out, or name a cluster of that size");
    }
    return strategy;
  }

  [[nodiscard]] std::vector<int64_t> micro_batch_choices() const {
    if (pins_.micro_batch) return {*pins_.micro_batch};
    return divisors(job_.global_batch / base_.dp);
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

  // CPU devices are this machine's, for the executor to run, so what it cannot run is no choice
  // there unless it was asked for.
  [[nodiscard]] std::vector<Sharding> sharding_choices() const {
    std::vector<Sharding> choices;
    for (const Sharding& one : {Sharding{0, false}, Sharding{1, false}, Sharding{2, false},
                                Sharding{2, true}, Sharding{3, false}, Sharding{3, true}}) {
      if (pins_.zero && one.zero != *pins_.zero) continue;
      Strategy strategy = base_;
      strategy.zero = one.zero;
      const bool must_run = cluster_.device.shares_cores && !pins_.zero;
      if (must_run && !why_not_runnable(strategy).empty()) continue;
      if (one.zero > 0 && base_.dp == 1) continue;
      choices.push_back(one);
    }
    return choices;
  }

  // Numbers of layers to recompute, ascending.
  [[nodiscard]] std::vector<int64_t> layer_choices() const {
    if (pins_.recompute) {
      return {*pins_.recompute == Recompute::kNone ? 0 : model_.layers};
    }
    std::vector<int64_t> counts;
    for (int64_t k = 0; k <= model_.layers; ++k) counts.push_back(k);
    return counts;
  }

  // Evaluates one micro-batch and loss form; true when some number of layers fits.
  bool search_layers(int64_t micro_batch, int64_t chunk, const std::vector<int64_t>& layers) {
    const auto fits = [&](size_t i) {
      return evaluate(micro_batch, chunk, layers[i]).predicted.peak_bytes <= limit_;
    };
    if (exhaustive_) {
      bool any = false;
      for (size_t i = 0; i < layers.size(); ++i) any = fits(i) || any;
      return any;
    }
    if (objective_ == SearchObjective::kMemory) {
      const bool last = fits(layers.size() - 1);
      return fits(0) || last;
    }
    if (fits(0)) return true;
    if (layers.size() == 1 || !fits(layers.size() - 1)) return false;
    // Recomputing one layer more never needs more memory, once one is recomputed at all.
    size_t low = 0;
    size_t high = layers.size() - 1;
    while (high - low > 1) {
      const size_t middle = (low + high) / 2;
      (fits(middle) ? high : low) = middle;
    }
    return true;
  }

  const Candidate& evaluate(int64_t micro_batch, int64_t chunk, int64_t recomputed) {
    const auto key = std::tuple(base_.zero, base_.zero_prefetch, micro_batch, chunk, recomputed);
    if (const auto at = candidates_.find(key); at != candidates_.end()) return at->second;
    Candidate candidate;
    candidate.strategy = base_;
    candidate.strategy.micro_batch = micro_batch;
    candidate.strategy.loss_chunks = chunk;
    // The first layers: their backward comes last, when later layers' activations are gone.
    std::fill_n(candidate.strategy.recompute.begin(), recomputed, Recompute::kFull);
    const StepProgram program = lower_plan(model_, cluster_, job_, candidate.strategy);
    candidate.predicted = predict(program, cluster_, job_);
    ++result_.counts.evaluated;
    if (progress_) progress_(result_.counts.evaluated, result_.counts.covered);
    return candidates_.emplace(key, std::move(candidate)).first->second;
  }

  [[nodiscard]] auto rank_of(const Candidate& c) const {
    const double seconds = c.predicted.step_seconds;
    const auto bytes = static_cast<double>(c.predicted.peak_bytes);
    const bool time_first = objective_ == SearchObjective::kTime;
    return std::tuple(time_first ? seconds : bytes, time_first ? bytes : seconds, c.strategy.zero,
                      c.strategy.zero_prefetch, c.strategy.micro_batch, c.strategy.loss_chunks,
                      c.strategy.num_recomputed());
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
  Strategy base_;
  SearchResult result_;
  std::map<std::tuple<int, bool, int64_t, int64_t, int64_t>, Candidate> candidates_;
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
