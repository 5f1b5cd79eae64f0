#include "base/noise.h"

#include "base/error.h"

#include <algorithm>

namespace plimsoll {

NoiseMoments noise_moments(double mean_small_squared, double big_squared, double small_batch,
                           double big_batch) {
  PLIMSOLL_CHECK(0 < small_batch && small_batch < big_batch, "batches of {} and {}", small_batch,
                 big_batch);
  return {.signal = (big_batch * big_squared - small_batch * mean_small_squared) /
                    (big_batch - small_batch),
          .noise = (mean_small_squared - big_squared) / (1 / small_batch - 1 / big_batch)};
}

void NoiseEstimator::add(const NoiseMoments& moments) {
  state_.signal_sum = decay_ * state_.signal_sum + (1 - decay_) * moments.signal;
  state_.noise_sum = decay_ * state_.noise_sum + (1 - decay_) * moments.noise;
  state_.weight = decay_ * state_.weight + (1 - decay_);
}

NoiseMoments NoiseEstimator::moments() const {
  PLIMSOLL_CHECK(state_.weight > 0, "no step was added");
  return {.signal = state_.signal_sum / state_.weight, .noise = state_.noise_sum / state_.weight};
}

std::optional<double> NoiseEstimator::noise_scale() const {
  if (!(state_.weight > 0)) return std::nullopt;
  const NoiseMoments average = moments();
  if (!(average.signal > 0)) return std::nullopt;
  return std::max(0.0, average.noise) / average.signal;
}

}  // namespace plimsoll
