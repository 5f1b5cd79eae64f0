// Batch size against steps and samples: the model of gradient noise.
//
// McCandlish, Kaplan, Amodei et al. 2018, "An empirical model of large-batch training": a target
// needs
//     S(B) = S_min (1 + B_crit / B) steps   and   E(B) = B S(B) samples,
// so that (S / S_min - 1) (E / E_min - 1) = 1 with E_min = B_crit S_min. The unit of B is one
// independent sample (a sequence, an image), never a token.
#pragma once

#include <span>

namespace plimsoll {

struct NoiseModel {
  double min_steps = 0;  // S_min: steps with an infinite batch
  double critical_batch =
      0;  // B_crit in samples: twice the least steps and twice the least samples

  [[nodiscard]] double min_samples() const { return critical_batch * min_steps; }  // E_min
  [[nodiscard]] double steps(double batch) const {
    return min_steps * (1 + critical_batch / batch);
  }
  [[nodiscard]] double samples(double batch) const { return batch * steps(batch); }
  // Progress of one sample against that in a small batch, in (0, 1]: E_min / E(B).
  [[nodiscard]] double efficiency(double batch) const {
    return critical_batch / (critical_batch + batch);
  }
};

// A run that reached the target: its batch in samples and the steps it took.
struct StepsToTarget {
  double batch = 0;
  double steps = 0;
};

// Least squares on log S of S = S_min + E_min / B (Gauss-Newton with damping on log S_min and log
// E_min), the fit of Zhang et al. 2024, "How does critical batch size scale in pre-training?".
// Throws Error (exit 2) for values that are not positive, for fewer than two batch sizes, and where
// the runs show no bend: steps that do not fall with the batch, or fall in full proportion to it,
// leave one of the two unbounded.
[[nodiscard]] NoiseModel fit_noise_model(std::span<const StepsToTarget> runs);

// Batch that reaches the target soonest when a step takes fixed_seconds + B * sample_seconds:
// sqrt(B_crit fixed / sample), the minimum of S(B) (fixed + B sample). Both must be positive.
[[nodiscard]] double fastest_batch(double critical_batch, double fixed_seconds,
                                   double sample_seconds);

}  // namespace plimsoll
