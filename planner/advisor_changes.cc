// The ladder of tricks, and the least changes that fit.
#include "planner/advisor_context.h"

#include <algorithm>

namespace plimsoll {

namespace {

// A dimension's settings, seen from the explained configuration.
struct Axis {
  const Dimension* dimension = nullptr;
  std::vector<Setting> settings;  // mildest first
  size_t first_fit = 0;           // the mildest that fits alone; settings.size() when none does
};

Configuration with(const AdvisorContext& context, const Setting& first,
                   const Setting& second = {}) {
  Configuration changed = context.base.configuration;
  first(changed);
  if (second) second(changed);
  return changed;
}

// Index of the first of `count` settings that fits, `count` when none does. Memory falls along the
// settings, so that halving finds it. It halves where the search does over numbers of layers, so
// that both come to the same also where packing makes memory rise by a little.
template <typename Fits>
size_t first_that(size_t count, Fits fits) {
  if (count == 0 || !fits(count - 1)) return count;
  int64_t low = -1;                                // does not fit
  int64_t high = static_cast<int64_t>(count) - 1;  // fits
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (fits(static_cast<size_t>(middle)) ? high : low) = middle;
  }
  return static_cast<size_t>(high);
}

std::vector<Axis> axes(const AdvisorContext& context) {
  std::vector<Axis> all;
  for (const Dimension& dimension : change_dimensions()) {
    Axis axis{&dimension, dimension.stronger(context.request.model, context.base.configuration), 0};
    axis.first_fit = first_that(axis.settings.size(), [&](size_t i) {
      return context.fits(with(context, axis.settings[i]));
    });
    all.push_back(std::move(axis));
  }
  return all;
}

// Pairs of settings of two axes that fit together while neither fits alone: for each of one axis
// the mildest of the other, where that is milder than for the one before.
void add_pairs(const AdvisorContext& context, const Axis& a, const Axis& b,
               std::vector<Option>& found) {
  const auto pair_fits = [&](size_t i, size_t j) {
    return context.fits(with(context, a.settings[i], b.settings[j]));
  };
  std::optional<std::pair<size_t, size_t>> last;
  for (size_t i = a.first_fit; i-- > 0;) {
    const size_t j = first_that(b.settings.size(), [&](size_t k) { return pair_fits(i, k); });
    if (j >= b.first_fit) break;  // the other alone is as good
    if (last && last->second != j) {
      found.push_back(
          context.option(with(context, a.settings[last->first], b.settings[last->second])));
    }
    last = {i, j};
  }
  if (last) {
    found.push_back(
        context.option(with(context, a.settings[last->first], b.settings[last->second])));
  }
}

}  // namespace

std::vector<LadderStep> ladder(const AdvisorContext& context) {
  std::vector<LadderStep> steps;
  for (const Axis& axis : axes(context)) {
    LadderStep step;
    step.dimension = axis.dimension;
    if (!axis.settings.empty()) {
      Option end = context.option(with(context, axis.settings.back()));
      step.refusal = end.evaluated.refusal;
      if (step.refusal.empty()) step.end = std::move(end);
      if (axis.first_fit < axis.settings.size()) {
        step.first_fit = context.option(with(context, axis.settings[axis.first_fit]));
      }
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

std::optional<Option> together(const AdvisorContext& context, bool same_result_alone) {
  Configuration changed = context.base.configuration;
  for (const Dimension& dimension : change_dimensions()) {
    if (same_result_alone && !dimension.same_result) continue;
    const std::vector<Setting> settings = dimension.stronger(context.request.model, changed);
    if (settings.empty()) continue;
    Configuration stronger = changed;
    settings.back()(stronger);
    if (context.evaluator.evaluate(stronger).refusal.empty()) changed = std::move(stronger);
  }
  if (changed == context.base.configuration) return std::nullopt;
  return context.option(changed);
}

std::vector<Option> least_changes(const AdvisorContext& context) {
  const std::vector<Axis> all = axes(context);
  std::vector<Option> found;
  for (size_t a = 0; a < all.size(); ++a) {
    if (all[a].first_fit < all[a].settings.size()) {
      found.push_back(context.option(with(context, all[a].settings[all[a].first_fit])));
    }
    for (size_t b = a + 1; b < all.size(); ++b) {
      // The longer axis is the one that is halved.
      const bool longer = all[a].first_fit > all[b].first_fit;
      add_pairs(context, all[longer ? b : a], all[longer ? a : b], found);
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Option& a, const Option& b) { return a.price < b.price; });
  return found;
}

}  // namespace plimsoll
