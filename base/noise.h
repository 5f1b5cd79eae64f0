// Gradient noise scale from the gradients of two batch sizes (McCandlish et al. 2018, appendix
// A.1).
//
// With E|G_B|^2 = |G|^2 + tr(Sigma) / B, one step's mean |g|^2 over n batches of B_small samples
// and |g|^2 of the whole B_big = n * B_small give unbiased estimates of |G|^2 and tr(Sigma). Their
// ratio is the noise scale in samples; the ratio of one step is biased and useless, so both are
// averaged first, and only the averages are divided.
#pragma once

#include <cstdint>
#include <optional>

namespace plimsoll {

struct NoiseMoments {
  double signal = 0;  // |G|^2
  double noise = 0;   // tr(Sigma), per sample
};

// Of one step. Gradients are means over their batch; `mean_small_squared` is the mean of |g|^2 over
// the small batches. Precondition: 0 < small_batch < big_batch.
[[nodiscard]] NoiseMoments noise_moments(double mean_small_squared, double big_squared,
                                         double small_batch, double big_batch);

// Exponential averages of both moments, corrected for having started at zero.
class NoiseEstimator {
 public:
  // All there is to it, for checkpoints.
  struct State {
    double signal_sum = 0;
    double noise_sum = 0;
    double weight = 0;  // 1 - decay^updates: of both sums
    friend bool operator==(const State&, const State&) = default;
  };

  // `decay` in [0, 1): weight of the past at each update.
  explicit NoiseEstimator(double decay) : decay_(decay) {}

  void add(const NoiseMoments& moments);

  // Averages so far; precondition: at least one `add`.
  [[nodiscard]] NoiseMoments moments() const;
  // tr(Sigma) / |G|^2 in samples; empty before the first `add` and while the average of |G|^2 is
  // not positive (too few steps to tell it from the noise).
  [[nodiscard]] std::optional<double> noise_scale() const;

  [[nodiscard]] const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  double decay_;
  State state_;
};

}  // namespace plimsoll
