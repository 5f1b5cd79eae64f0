// Configurations, and their evaluation by lowering: each is lowered, placed and simulated once.
//
// A configuration is all that a user can change about a job: the cluster, the job and the strategy.
// What lowering refuses (a type that the device lacks, a sequence beyond the model's positions) is
// remembered with its reason, so that a search over changes need not know such rules.
#pragma once

#include "planner/plan.h"

#include <deque>
#include <functional>
#include <string>

namespace plimsoll {

struct Configuration {
  Cluster cluster;
  Job job;
  Strategy strategy;
  friend bool operator==(const Configuration&, const Configuration&) = default;
};

struct Evaluated {
  Configuration configuration;
  Prediction predicted;  // meaningless when refused
  std::string refusal;   // why there is no such program; empty when there is one

  // There is a program and its peak is within the limit.
  [[nodiscard]] bool fits(int64_t limit_bytes) const {
    return refusal.empty() && predicted.peak_bytes <= limit_bytes;
  }
};

class Evaluator {
 public:
  // `on_new` is called with the number of evaluations after each of them.
  explicit Evaluator(const ModelSpec& model, std::function<void(int64_t)> on_new = {})
      : model_(model), on_new_(std::move(on_new)) {}

  // The reference stays valid as long as the evaluator.
  const Evaluated& evaluate(const Configuration& configuration);

  // Takes in what a search found, so that it is not lowered again.
  const Evaluated& remember(const Configuration& configuration, const Prediction& predicted);

  // In order of evaluation.
  [[nodiscard]] const std::deque<Evaluated>& all() const { return all_; }

 private:
  const Evaluated* find(const Configuration& configuration) const;

  const ModelSpec& model_;
  std::function<void(int64_t)> on_new_;
  std::deque<Evaluated> all_;
};

// The category with the most bytes at the peak, and those bytes. What lies outside the arena and
// what packing loses count as framework.
struct CategoryShare {
  Category category = Category::kFramework;
  int64_t bytes = 0;
};
[[nodiscard]] CategoryShare largest_category(const Prediction& prediction);

// Bytes at the peak by category with packing and outside in `framework`: they add up to the peak.
[[nodiscard]] CategoryBytes peak_by_category(const Prediction& prediction);

}  // namespace plimsoll
