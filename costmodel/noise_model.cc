#include "costmodel/noise_model.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>

namespace plimsoll {

namespace {

// The parameters as fitted: logarithms keep both positive.
struct LogFit {
  double min_steps = 0;    // log S_min
  double min_samples = 0;  // log E_min

  [[nodiscard]] double log_steps(double batch) const {
    return std::log(std::exp(min_steps) + std::exp(min_samples) / batch);
  }
};

double squared_error(std::span<const StepsToTarget> runs, const LogFit& fit) {
  double sum = 0;
  for (const auto& run : runs) {
    const double residual = std::log(run.steps) - fit.log_steps(run.batch);
    sum += residual * residual;
  }
  return sum;
}

// One Gauss-Newton step with Levenberg's damping. Residual r = log S - log(a + b / B) has the
// derivatives -w and -(1 - w) by log a and log b, with w = a / (a + b / B).
LogFit damped_step(std::span<const StepsToTarget> runs, const LogFit& fit, double damping) {
  double aa = 0, ab = 0, bb = 0, ar = 0, br = 0;
  for (const auto& run : runs) {
    const double a = std::exp(fit.min_steps - fit.log_steps(run.batch));
    const double b = 1 - a;
    const double residual = std::log(run.steps) - fit.log_steps(run.batch);
    aa += a * a;
    ab += a * b;
    bb += b * b;
    ar += a * residual;
    br += b * residual;
  }
  aa += damping;
  bb += damping;
  const double determinant = aa * bb - ab * ab;
  return {fit.min_steps + (ar * bb - br * ab) / determinant,
          fit.min_samples + (br * aa - ar * ab) / determinant};
}

struct Range {
  double smallest = 0;
  double largest = 0;
};

Range check_runs(std::span<const StepsToTarget> runs) {
  for (const auto& run : runs) {
    if (!(run.batch > 0) || !(run.steps > 0) || !std::isfinite(run.batch) ||
        !std::isfinite(run.steps)) {
      throw bad_input(
          fmt::format("batch {} with {} steps: both must be positive", run.batch, run.steps));
    }
  }
  const auto by_batch = [](const auto& a, const auto& b) { return a.batch < b.batch; };
  const auto [low, high] = std::minmax_element(runs.begin(), runs.end(), by_batch);
  if (runs.empty() || low->batch == high->batch) {
    throw bad_input("a noise model needs runs with at least two batch sizes");
  }
  return {low->batch, high->batch};
}

}  // namespace

NoiseModel fit_noise_model(std::span<const StepsToTarget> runs) {
  const Range range = check_runs(runs);
  // Start between the two limits: half of the steps at the geometric middle are S_min.
  const double middle = std::sqrt(range.smallest * range.largest);
  double mean_log_steps = 0;
  for (const auto& run : runs) mean_log_steps += std::log(run.steps);
  mean_log_steps /= static_cast<double>(runs.size());
  LogFit fit{mean_log_steps - std::log(2.0), mean_log_steps - std::log(2.0) + std::log(middle)};

  constexpr int kMaxIterations = 1000;
  constexpr double kConverged = 1e-12;
  double damping = 1e-3;
  double error = squared_error(runs, fit);
  for (int iteration = 0; iteration < kMaxIterations; ++iteration) {
    const LogFit next = damped_step(runs, fit, damping);
    const double next_error = squared_error(runs, next);
    if (!(next_error <= error)) {
      damping *= 10;
      if (damping > 1e12) break;
      continue;
    }
    const double moved = std::max(std::abs(next.min_steps - fit.min_steps),
                                  std::abs(next.min_samples - fit.min_samples));
    fit = next;
    error = next_error;
    damping = std::max(damping / 10, 1e-15);
    if (moved < kConverged) break;
  }

  const NoiseModel model{std::exp(fit.min_steps), std::exp(fit.min_samples - fit.min_steps)};
  // A critical batch far outside of what was tried is an extrapolation without a bend to hold it.
  constexpr double kFarOutside = 1000;
  if (!(model.critical_batch < kFarOutside * range.largest)) {
    throw bad_input("the steps fall in full proportion to the batch: no critical batch size to fit",
                    "add runs with larger batches");
  }
  if (!(model.critical_batch > range.smallest / kFarOutside)) {
    throw bad_input("the steps do not fall with the batch: no critical batch size to fit",
                    "add runs with smaller batches");
  }
  return model;
}

double fastest_batch(double critical_batch, double fixed_seconds, double sample_seconds) {
  PLIMSOLL_CHECK(critical_batch > 0 && fixed_seconds > 0 && sample_seconds > 0,
                 "B_crit {}, {} s fixed, {} s a sample", critical_batch, fixed_seconds,
                 sample_seconds);
  return std::sqrt(critical_batch * fixed_seconds / sample_seconds);
}

}  // namespace plimsoll
