// Accuracy of the float functions, through the kernels that use them.
#include "kernels/cpu/cross_entropy.h"
#include "kernels/cpu/gelu.h"
#include "kernels/cpu/gradient_norm.h"
#include "kernels/cpu/layer_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace plimsoll::testing {
namespace {

// Units in the last place between a float and an exact value.
double ulps(float found, double exact) {
  const double unit = std::ldexp(1.0, std::max(std::ilogb(exact), -126) - 23);
  return std::abs(static_cast<double>(found) - exact) / unit;
}

// exp itself, read off the gradient of cross-entropy: exp(logit - lse) * scale with an lse of 0.
std::vector<float> exponentials(const std::vector<float>& x) {
  std::vector<float> y(x.size() + 1);
  std::vector<float> logits = x;
  logits.push_back(0);  // takes the target
  const auto target = static_cast<int32_t>(x.size());
  const float lse = 0;
  ThreadPool pool(1);
  cross_entropy_backward<float>(logits.data(), &target, &lse, y.data(), 1, 1,
                                static_cast<int64_t>(logits.size()), pool);
  y.pop_back();
  return y;
}

TEST(Functions, ExponentialIsWithinTwoUlps) {
  std::vector<float> x;
  for (int i = 0; i < 200000; ++i) x.push_back(-87.3F + 176.0F * static_cast<float>(i) / 200000);
  for (int i = -2000; i <= 2000; ++i) x.push_back(static_cast<float>(i) * 1e-6F);
  const std::vector<float> y = exponentials(x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, ulps(y[i], std::exp(static_cast<double>(x[i]))));
  }
  EXPECT_LT(worst, 2.0);
}

TEST(Functions, ExponentialOfExtremes) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> y =
      exponentials({-infinity, -1e30F, -88.0F, 0.0F, 88.7F, 89.0F, 1e30F, infinity, std::nanf("")});
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], 0);
  EXPECT_EQ(y[3], 1);
  EXPECT_TRUE(std::isfinite(y[4]));
  EXPECT_EQ(y[5], infinity);
  EXPECT_EQ(y[6], infinity);
  EXPECT_EQ(y[7], infinity);
  EXPECT_TRUE(std::isnan(y[8]));
}

TEST(Functions, GeluIsAccurateRelativeToItsSizeAlsoFarOut) {
  std::vector<float> x;
  for (int i = -9000; i <= 9000; ++i) x.push_back(static_cast<float>(i) * 1e-3F);
  std::vector<float> y(x.size());
  ThreadPool pool(1);
  const auto n = static_cast<int64_t>(x.size());
  gelu_forward(x.data(), y.data(), GeluForm::kErf, n, pool);
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact =
        0.5 * static_cast<double>(x[i]) * std::erfc(-static_cast<double>(x[i]) / std::sqrt(2.0));
    ASSERT_NEAR(y[i], exact, 4e-6 * std::abs(exact)) << x[i];
  }
  gelu_forward(x.data(), y.data(), GeluForm::kTanh, n, pool);
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = static_cast<double>(x[i]);
    const double u = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
    const double exact = v / (1 + std::exp(-2 * u));
    ASSERT_NEAR(y[i], exact, 2e-5 * std::abs(exact)) << x[i];
  }
}

TEST(Functions, ActivationsOfExtremesAreFinite) {
  const std::vector<float> x = {-1e4F, -200, -90, 90, 200, 1e4F};
  std::vector<float> y(x.size());
  ThreadPool pool(1);
  for (const GeluForm form : {GeluForm::kErf, GeluForm::kTanh}) {
    gelu_forward(x.data(), y.data(), form, 6, pool);
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], i < 3 ? 0 : x[i]);
    const std::vector<float> ones(x.size(), 1);
    gelu_backward(ones.data(), x.data(), y.data(), form, 6, pool);
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], i < 3 ? 0 : 1);
  }
}

TEST(Functions, SumOfSquaresIsExactOnIntegers) {
  std::vector<float> x(200003);
  double expected = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i % 1000);
    expected += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  ThreadPool pool(2);
  EXPECT_EQ(sum_squares(x.data(), static_cast<int64_t>(x.size()), pool), expected);
  EXPECT_EQ(clip_factor(4, 1), 0.25);
  EXPECT_EQ(clip_factor(0.5, 1), 1);
  EXPECT_EQ(clip_factor(4, 0), 1);
  EXPECT_TRUE(std::isnan(clip_factor(std::nan(""), 1)));
}

// A row far from zero: the variance must not be a difference of large squares.
TEST(Functions, LayerNormOfShiftedRow) {
  std::vector<float> x(64), w(64, 1), b(64, 0), y(64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 4096 + static_cast<float>(i % 2);
  float mean = 0, rstd = 0;
  ThreadPool pool(1);
  layer_norm_forward<float>(x.data(), w.data(), b.data(), y.data(), &mean, &rstd, 0, 1, 64, pool);
  EXPECT_EQ(mean, 4096.5F);
  EXPECT_EQ(rstd, 2.0F);
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], i % 2 == 0 ? -1 : 1);
}

}  // namespace
}  // namespace plimsoll::testing
