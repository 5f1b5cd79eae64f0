// What the parts of the fit advisor share: the request, the explained configuration, the memo.
#pragma once

#include "planner/advisor.h"

#include <optional>
#include <string_view>

namespace plimsoll {

struct AdvisorContext {
  const AdviceRequest& request;
  Evaluator& evaluator;
  const Evaluated& base;

  [[nodiscard]] bool fits(const Configuration& configuration) const {
    return evaluator.evaluate(configuration).fits(request.memory_limit_bytes);
  }
  // The configuration beside the explained one.
  [[nodiscard]] Option option(const Configuration& configuration, int64_t limit_bytes) const;
  [[nodiscard]] Option option(const Configuration& configuration) const {
    return option(configuration, request.memory_limit_bytes);
  }
  // Of what the pins leave open, apart from the dimension `except`: the first found to fit, else
  // the one with the least peak. All of the search's space is covered by its extremes.
  [[nodiscard]] const Evaluated& least_open(const Configuration& from, int64_t limit_bytes,
                                            std::string_view except = "") const;
};

// planner/advisor_changes.cc
[[nodiscard]] std::vector<LadderStep> ladder(const AdvisorContext& context);
// The strongest setting of every dimension at once; empty when nothing is left to change.
[[nodiscard]] std::optional<Option> together(const AdvisorContext& context, bool same_result_alone);
// Changes of one or of two dimensions that fit, of which no milder one fits, cheapest first.
[[nodiscard]] std::vector<Option> least_changes(const AdvisorContext& context);

// planner/advisor_limits.cc
[[nodiscard]] LargestPair largest_micro_batch(const AdvisorContext& context);
[[nodiscard]] LargestPair largest_seq(const AdvisorContext& context);
[[nodiscard]] DeviceAdvice device_advice(const AdvisorContext& context, const PeakAnatomy& anatomy);
[[nodiscard]] HardwareAdvice hardware_advice(const AdvisorContext& context);

}  // namespace plimsoll
