#include "base/rng.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cmath>
#include <vector>

namespace plimsoll {
namespace {

// The tokens of the golden set-up: (mix(10^12 + j + 1) >> 33) mod V.
TEST(Splitmix, GivesTheGoldenTokens) {
  const std::array<uint64_t, 6> small = {97, 254, 176, 43, 21, 205};
  const std::array<uint64_t, 6> large = {42623, 39320, 11223, 4239, 5346, 10596};
  for (uint64_t j = 0; j < small.size(); ++j) {
    const uint64_t bits = splitmix64(1'000'000'000'000ULL + j + 1) >> 33;
    EXPECT_EQ(bits % 256, small[j]);
    EXPECT_EQ(bits % 50257, large[j]);
  }
}

TEST(Purpose, DistinguishesNames) {
  EXPECT_EQ(rng_purpose(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(rng_purpose("a"), 0xaf63dc4c8601ec8cULL);  // published FNV-1a test vector
  EXPECT_NE(rng_purpose("init:wte"), rng_purpose("init:wpe"));
}

// Means of n draws lie within 5 standard errors; the draws are fixed, so this never flickers.
TEST(Uniform, HasTheMomentsOfTheUniform) {
  constexpr int kDraws = 100'000;
  double sum = 0;
  double squares = 0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double u = rng_uniform(7, rng_purpose("test"), i);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
  }
  const double root = std::sqrt(kDraws);
  EXPECT_NEAR(sum / kDraws, 0.5, 5 * std::sqrt(1.0 / 12) / root);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 5 * std::sqrt(4.0 / 45) / root);
}

TEST(Normal, HasTheMomentsOfTheNormal) {
  constexpr int kDraws = 100'000;
  std::array<double, 5> moments{};
  double neighbours = 0;
  double previous = 0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double x = rng_normal(7, rng_purpose("test"), i);
    ASSERT_TRUE(std::isfinite(x));
    for (size_t k = 1; k < moments.size(); ++k) moments[k] += std::pow(x, k);
    neighbours += x * previous;
    previous = x;
  }
  const double root = std::sqrt(kDraws);
  EXPECT_NEAR(moments[1] / kDraws, 0, 5 / root);
  EXPECT_NEAR(moments[2] / kDraws, 1, 5 * std::sqrt(2.0) / root);
  EXPECT_NEAR(moments[3] / kDraws, 0, 5 * std::sqrt(15.0) / root);
  EXPECT_NEAR(moments[4] / kDraws, 3, 5 * std::sqrt(96.0) / root);
  EXPECT_NEAR(neighbours / kDraws, 0, 5 / root);
}

TEST(Streams, OfOtherSeedsAndPurposesDiffer) {
  int equal = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    equal += rng_uniform(1, 2, i) == rng_uniform(2, 2, i) ? 1 : 0;
    equal += rng_uniform(1, 2, i) == rng_uniform(1, 3, i) ? 1 : 0;
  }
  EXPECT_LE(equal, 2);  // 2^-24 each
}

TEST(Permutation, IsABijectionForEverySmallSize) {
  for (uint64_t n = 1; n <= 300; ++n) {
    std::vector<bool> seen(n);
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t image = rng_permute(3, rng_purpose("order"), n, i);
      ASSERT_LT(image, n);
      ASSERT_FALSE(seen[image]) << n << " maps two points to " << image;
      seen[image] = true;
    }
  }
}

RC_GTEST_PROP(Permutation, IsABijection, (uint64_t seed, uint64_t purpose)) {
  const auto n = *rc::gen::inRange<uint64_t>(1, 5000);
  std::vector<bool> seen(n);
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t image = rng_permute(seed, purpose, n, i);
    RC_ASSERT(image < n);
    RC_ASSERT(!seen[image]);
    seen[image] = true;
  }
}

TEST(Permutation, StaysInsideLargeRanges) {
  for (const uint64_t n : {(uint64_t{1} << 40) + 1, (uint64_t{1} << 62) - 1, uint64_t{1} << 62}) {
    for (uint64_t i = 0; i < 100; ++i) EXPECT_LT(rng_permute(1, 2, n, n - 1 - i), n);
  }
}

TEST(Permutation, DiffersBetweenSeeds) {
  int equal = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    equal += rng_permute(1, 5, 1000, i) == rng_permute(2, 5, 1000, i) ? 1 : 0;
  }
  EXPECT_LT(equal, 20);  // one match is expected
}

}  // namespace
}  // namespace plimsoll
