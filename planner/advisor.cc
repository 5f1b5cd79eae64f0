#include "planner/advisor.h"

#include "planner/advisor_context.h"

#include <algorithm>
#include <future>

namespace plimsoll {

namespace {

constexpr size_t kShown = 5;  // rejected candidates that are kept

SearchResult search_for(const AdviceRequest& r, const Pins& pins) {
  return search(r.model, r.cluster, r.job, pins, r.memory_limit_bytes, r.objective);
}

// The request's pins without those of the strategy's dimensions.
Pins released(Pins pins) {
  for (const Dimension& dimension : change_dimensions()) {
    if (dimension.release != nullptr) dimension.release(pins);
  }
  return pins;
}

// The plan; when nothing fits, the pins and what a run has when nothing is said.
Configuration explained_of(const AdviceRequest& r, const SearchResult& found) {
  Configuration c{r.cluster, r.job, found.best ? found.best->strategy : found.smallest.strategy};
  if (found.best) return c;
  for (const Dimension& dimension : change_dimensions()) {
    if (!dimension.is_pinned(r.pins)) dimension.reset(c);
  }
  return c;
}

// What was evaluated for the same job on the same cluster and does not fit; of strategies that
// differ in their recompute alone, the nearest.
std::vector<Rejected> rejected_of(const AdvisorContext& context) {
  const int64_t limit = context.request.memory_limit_bytes;
  std::vector<Rejected> rejected;
  for (const Evaluated& one : context.evaluator.all()) {
    const Configuration& c = one.configuration;
    const bool same =
        c.cluster == context.base.configuration.cluster && c.job == context.base.configuration.job;
    if (!same || !one.refusal.empty() || one.fits(limit) || &one == &context.base) continue;
    rejected.push_back({one, one.predicted.peak_bytes - limit, largest_category(one.predicted)});
  }
  std::stable_sort(rejected.begin(), rejected.end(), [](const Rejected& a, const Rejected& b) {
    return a.over_bytes < b.over_bytes;
  });
  std::vector<Rejected> nearest;
  for (Rejected& one : rejected) {
    const auto like = [&](const Rejected& other) {
      Strategy strategy = one.evaluated.configuration.strategy;
      strategy.recompute = other.evaluated.configuration.strategy.recompute;
      return strategy == other.evaluated.configuration.strategy;
    };
    if (std::any_of(nearest.begin(), nearest.end(), like)) continue;
    nearest.push_back(std::move(one));
    if (nearest.size() == kShown) break;
  }
  return nearest;
}

void add_alternatives(const AdvisorContext& context, const SearchResult& found, Advice& advice) {
  advice.search = found.counts;
  std::vector<Candidate> fitting;
  if (found.best) fitting.push_back({found.best->strategy, found.best->predicted});
  fitting.insert(fitting.end(), found.alternatives.begin(), found.alternatives.end());
  const Configuration& base = context.base.configuration;
  for (const Candidate& candidate : fitting) {
    if (candidate.strategy == base.strategy) continue;
    const Configuration c{base.cluster, base.job, candidate.strategy};
    context.evaluator.remember(c, candidate.predicted);
    advice.alternatives.push_back(context.option(c));
    // Of those that differ in their recompute alone, which one is the least is not known here.
    advice.alternatives.back().searchable = !is_partial(c.strategy);
  }
}

}  // namespace

Option AdvisorContext::option(const Configuration& configuration, int64_t limit_bytes) const {
  Option option;
  option.evaluated = evaluator.evaluate(configuration);
  for (const Dimension& dimension : change_dimensions()) {
    const std::string text = dimension.text(request.model, configuration);
    if (text == dimension.text(request.model, base.configuration)) continue;
    option.text += (option.text.empty() ? "" : " + ") + text;
    option.keys.push_back(dimension.key);
    option.same_result = option.same_result && dimension.same_result;
  }
  option.fits = option.evaluated.fits(limit_bytes);
  const Prediction& predicted = option.evaluated.predicted;
  option.saved_bytes = base.predicted.peak_bytes - predicted.peak_bytes;
  option.price = predicted.step_seconds / base.predicted.step_seconds - 1;
  // Where the explained one does not fit, a change of recompute is the least that does, and the
  // search comes to the same; where it fits, the search would recompute less. It mixes full
  // recompute with none alone.
  option.searchable = !is_partial(configuration.strategy) ||
                      (!base.fits(limit_bytes) &&
                       configuration.strategy.num_recomputed(Recompute::kSelective) == 0 &&
                       configuration.strategy.recompute != base.configuration.strategy.recompute);
  if (configuration.strategy.zero >= 2) {
    // Prefetch is no pin: the search takes the faster form that fits.
    Configuration other = configuration;
    other.strategy.zero_prefetch = !other.strategy.zero_prefetch;
    const Evaluated& rival = evaluator.evaluate(other);
    option.searchable =
        !is_partial(configuration.strategy) &&
        !(rival.fits(limit_bytes) && (!option.evaluated.fits(limit_bytes) ||
                                      rival.predicted.step_seconds < predicted.step_seconds));
  }
  option.pins = pins_for(configuration, request.pins);
  option.flags = flag_change(request.model, request.pins, base.configuration, configuration);
  return option;
}

const Evaluated& AdvisorContext::least_open(const Configuration& from, int64_t limit_bytes,
                                            std::string_view except) const {
  std::vector<Configuration> candidates = {from};
  for (const Dimension& dimension : change_dimensions()) {
    if (dimension.is_pinned(request.pins) || dimension.key == except) continue;
    std::vector<Configuration> more;
    for (const Configuration& one : candidates) {
      for (const Setting& set : dimension.extremes(request.model, one)) {
        more.push_back(one);
        set(more.back());
      }
    }
    if (!more.empty()) candidates = std::move(more);
  }
  const Evaluated* least = nullptr;
  for (const Configuration& candidate : candidates) {
    const Evaluated& one = evaluator.evaluate(candidate);
    if (one.fits(limit_bytes)) return one;
    const bool less = least == nullptr || !least->refusal.empty() ||
                      one.predicted.peak_bytes < least->predicted.peak_bytes;
    if (least == nullptr || (one.refusal.empty() && less)) least = &one;
  }
  return *least;
}

Advice advise(const AdviceRequest& request, const std::function<void(int64_t)>& progress) {
  SearchResult found = search_for(request, request.pins);
  // The space without pins is searched beside the rest.
  std::future<SearchResult> free_search;
  const bool same_space = std::none_of(
      change_dimensions().begin(), change_dimensions().end(), [&](const Dimension& dimension) {
        return dimension.release != nullptr && dimension.is_pinned(request.pins);
      });
  if (!same_space) {
    free_search =
        std::async(std::launch::async, search_for, std::cref(request), released(request.pins));
  }
  Evaluator evaluator(request.model, progress);
  const Configuration configuration = explained_of(request, found);
  const Evaluated& base = evaluator.evaluate(configuration);
  const AdvisorContext context{request, evaluator, base};

  Advice advice;
  advice.request = request;
  advice.explained = base;
  advice.planned = found.best.has_value();
  advice.fits = base.fits(request.memory_limit_bytes);
  const std::vector<StepProgram> stages =
      lower_plan(request.model, configuration.cluster, configuration.job, configuration.strategy);
  advice.anatomy = peak_anatomy(stages[static_cast<size_t>(base.predicted.fullest_stage)]);
  advice.ladder = ladder(context);
  advice.together = together(context, true);
  advice.all_together = together(context, false);
  if (!advice.fits) advice.changes = least_changes(context);
  advice.micro_batch = largest_micro_batch(context);
  if (configuration.job.seq > 0) advice.seq = largest_seq(context);
  advice.devices = device_advice(context, advice.anatomy);
  advice.hardware = hardware_advice(context);
  advice.evaluated = static_cast<int64_t>(evaluator.all().size());
  if (free_search.valid()) found = free_search.get();
  add_alternatives(context, found, advice);
  advice.rejected = rejected_of(context);
  return advice;
}

}  // namespace plimsoll
