#include "planner/evaluator.h"

#include "base/error.h"

#include <algorithm>

namespace plimsoll {

const Evaluated* Evaluator::find(const Configuration& configuration) const {
  const auto known = std::find_if(all_.begin(), all_.end(), [&](const Evaluated& one) {
    return one.configuration.strategy == configuration.strategy &&
           one.configuration == configuration;
  });
  return known == all_.end() ? nullptr : &*known;
}

const Evaluated& Evaluator::remember(const Configuration& configuration,
                                     const Prediction& predicted) {
  if (const Evaluated* known = find(configuration)) return *known;
  all_.push_back({configuration, predicted, {}});
  return all_.back();
}

const Evaluated& Evaluator::evaluate(const Configuration& configuration) {
  if (const Evaluated* known = find(configuration)) return *known;
  Evaluated made{configuration, {}, {}};
  try {
    made.predicted = predict(
        lower_plan(model_, configuration.cluster, configuration.job, configuration.strategy),
        configuration.cluster, configuration.job);
  } catch (const Error& error) {
    made.refusal = error.what();
  }
  all_.push_back(std::move(made));
  if (on_new_) on_new_(static_cast<int64_t>(all_.size()));
  return all_.back();
}

CategoryBytes peak_by_category(const Prediction& prediction) {
  CategoryBytes bytes = prediction.by_category;
  bytes[static_cast<size_t>(Category::kFramework)] +=
      prediction.peak_bytes - prediction.live_peak_bytes;
  return bytes;
}

CategoryShare largest_category(const Prediction& prediction) {
  const CategoryBytes bytes = peak_by_category(prediction);
  const auto largest = std::max_element(bytes.begin(), bytes.end());
  return {static_cast<Category>(largest - bytes.begin()), *largest};
}

}  // namespace plimsoll
