#include "executor/schedule.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace plimsoll {

Schedule::Kind parse_schedule(std::string_view name) {
  if (name == "constant") return Schedule::Kind::kConstant;
  if (name == "cosine") return Schedule::Kind::kCosine;
  throw bad_input(fmt::format("no learning-rate schedule '{}'", name), "constant or cosine");
}

double learning_rate(const Schedule& schedule, int64_t step) {
  if (step < schedule.warmup_steps) {
    return schedule.learning_rate * static_cast<double>(step + 1) /
           static_cast<double>(schedule.warmup_steps);
  }
  switch (schedule.kind) {
    case Schedule::Kind::kConstant:
      return schedule.learning_rate;
    case Schedule::Kind::kCosine: {
      const int64_t length = std::max<int64_t>(1, schedule.total_steps - schedule.warmup_steps);
      const double t = std::min(
          1.0, static_cast<double>(step - schedule.warmup_steps) / static_cast<double>(length));
      const double final_rate = schedule.final_fraction * schedule.learning_rate;
      return final_rate +
             (schedule.learning_rate - final_rate) * (1 + std::cos(std::numbers::pi * t)) / 2;
    }
  }
  return 0;
}

double bias_correction(double beta, int64_t step) {
  return 1 - std::pow(beta, static_cast<double>(step + 1));
}

}  // namespace plimsoll
