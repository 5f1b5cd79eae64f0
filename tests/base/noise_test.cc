#include "base/noise.h"

#include "base/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace plimsoll {
namespace {

// Gradients of n batches of b samples: `mean` plus normal noise of variance sigma^2 / b in each of
// its components. Returns the mean square norm of the batches' gradients and that of their mean.
struct Squares {
  double small = 0;
  double big = 0;
  double spread = 0;  // sum over batches of |g_i - mean g|^2
};

Squares draw(const std::vector<double>& mean, double sigma, int n, double b, uint64_t step) {
  const size_t d = mean.size();
  std::vector<std::vector<double>> g(static_cast<size_t>(n), mean);
  std::vector<double> average(d, 0.0);
  Squares squares;
  for (int i = 0; i < n; ++i) {
    for (size_t k = 0; k < d; ++k) {
      double& value = g[static_cast<size_t>(i)][k];
      value += sigma / std::sqrt(b) * rng_normal(7, step, static_cast<uint64_t>(i) * d + k);
      squares.small += value * value / n;
      average[k] += value / n;
    }
  }
  for (size_t k = 0; k < d; ++k) {
    squares.big += average[k] * average[k];
    for (int i = 0; i < n; ++i) {
      squares.spread += std::pow(g[static_cast<size_t>(i)][k] - average[k], 2);
    }
  }
  return squares;
}

// notes on estimators: the noise is b / (n - 1) times the spread of the small batches' gradients.
TEST(Noise, IsTheBesselCorrectedSpread) {
  for (const int n : {2, 3, 8}) {
    for (const double b : {1.0, 4.0}) {
      const Squares squares = draw({1, -2, 0.5}, 3, n, b, static_cast<uint64_t>(n));
      const NoiseMoments moments = noise_moments(squares.small, squares.big, b, b * n);
      EXPECT_NEAR(moments.noise, b / (n - 1) * squares.spread, 1e-9 * moments.noise);
      EXPECT_NEAR(moments.signal, squares.big - moments.noise / (b * n), 1e-9);
    }
  }
}

// Both averages are unbiased; their spread over repetitions is that of section 1.3's formulas:
// Var(noise) = 2 tr(Sigma^2) / (n - 1), Var(signal) = 4 G Sigma G / B + 2 n tr(Sigma^2) / ((n-1)
// B^2).
TEST(Noise, MomentsAreUnbiasedWithTheKnownVariance) {
  const std::vector<double> mean(10, 0.3);
  const double sigma = 1.5;
  const int n = 4;
  const double b = 2;
  const int steps = 20000;
  double signal = 0;
  double noise = 0;
  double signal_square = 0;
  double noise_square = 0;
  for (int step = 0; step < steps; ++step) {
    const Squares squares = draw(mean, sigma, n, b, static_cast<uint64_t>(step));
    const NoiseMoments moments = noise_moments(squares.small, squares.big, b, b * n);
    signal += moments.signal / steps;
    noise += moments.noise / steps;
    signal_square += moments.signal * moments.signal / steps;
    noise_square += moments.noise * moments.noise / steps;
  }
  const double d = 10;
  const double s2 = sigma * sigma;
  const double var_noise = 2 * d * s2 * s2 / (n - 1);
  const double big = b * n;
  const double var_signal = 4 * d * 0.09 * s2 / big + 2 * n * d * s2 * s2 / ((n - 1) * big * big);
  EXPECT_NEAR(noise, d * s2, 4 * std::sqrt(var_noise / steps));
  EXPECT_NEAR(signal, d * 0.09, 4 * std::sqrt(var_signal / steps));
  EXPECT_NEAR(noise_square - noise * noise, var_noise, 0.06 * var_noise);
  EXPECT_NEAR(signal_square - signal * signal, var_signal, 0.06 * var_signal);
}

TEST(Noise, AveragesBeforeItDivides) {
  const std::vector<double> mean(10, 0.3);
  NoiseEstimator estimator(0.999);
  double ratios = 0;
  const int steps = 20000;
  for (int step = 0; step < steps; ++step) {
    const Squares squares = draw(mean, 1.5, 2, 1, static_cast<uint64_t>(step));
    const NoiseMoments moments = noise_moments(squares.small, squares.big, 1, 2);
    estimator.add(moments);
    ratios += moments.noise / moments.signal / steps;
  }
  ASSERT_TRUE(estimator.noise_scale().has_value());
  EXPECT_NEAR(*estimator.noise_scale(), 25, 5);  // 10 * 2.25 / (10 * 0.09)
  EXPECT_GT(std::abs(ratios - 25), 5) << "the mean of ratios is no estimate";
}

TEST(Noise, TheAverageOfEqualStepsIsThatStep) {
  for (const double decay : {0.0, 0.9, 0.99}) {
    NoiseEstimator estimator(decay);
    EXPECT_FALSE(estimator.noise_scale().has_value());
    for (int i = 0; i < 5; ++i) {
      estimator.add({.signal = 2, .noise = 6});
      EXPECT_NEAR(estimator.moments().signal, 2, 1e-12);
      EXPECT_NEAR(*estimator.noise_scale(), 3, 1e-12);
    }
  }
}

TEST(Noise, NothingIsSaidWhileTheSignalIsLostInTheNoise) {
  NoiseEstimator estimator(0.9);
  estimator.add({.signal = -1, .noise = 5});
  EXPECT_FALSE(estimator.noise_scale().has_value());
}

TEST(Noise, ARestoredEstimatorGoesOn) {
  NoiseEstimator first(0.9);
  first.add({.signal = 1, .noise = 2});
  first.add({.signal = 3, .noise = 4});
  NoiseEstimator second(0.9);
  second.restore(first.state());
  first.add({.signal = 5, .noise = 1});
  second.add({.signal = 5, .noise = 1});
  EXPECT_EQ(first.state(), second.state());
}

}  // namespace
}  // namespace plimsoll
