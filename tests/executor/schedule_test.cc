#include "executor/schedule.h"

#include "base/error.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plimsoll {
namespace {

TEST(Schedule, ConstantWithWarmup) {
  const Schedule schedule{.kind = Schedule::Kind::kConstant,
                          .learning_rate = 0.8,
                          .warmup_steps = 4,
                          .total_steps = 100};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 0), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 3), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 4), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 5000), 0.8);
}

TEST(Schedule, CosineFromTheHighestToTheFinal) {
  const Schedule schedule{.kind = Schedule::Kind::kCosine,
                          .learning_rate = 1.0,
                          .warmup_steps = 10,
                          .total_steps = 110,
                          .final_fraction = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 10), 1.0);
  EXPECT_NEAR(learning_rate(schedule, 60), 0.55, 1e-12);  // half way
  EXPECT_NEAR(learning_rate(schedule, 35), 0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2, 1e-12);
  EXPECT_NEAR(learning_rate(schedule, 110), 0.1, 1e-12);
  EXPECT_NEAR(learning_rate(schedule, 1000), 0.1, 1e-12);
  for (int64_t step = 10; step < 109; ++step) {
    EXPECT_GT(learning_rate(schedule, step), learning_rate(schedule, step + 1)) << step;
  }
}

TEST(Schedule, AWarmupLongerThanTheRun) {
  const Schedule schedule{.kind = Schedule::Kind::kCosine,
                          .learning_rate = 1.0,
                          .warmup_steps = 100,
                          .total_steps = 10};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9), 0.1);
  EXPECT_TRUE(std::isfinite(learning_rate(schedule, 100)));
}

TEST(Schedule, Names) {
  EXPECT_EQ(parse_schedule("cosine"), Schedule::Kind::kCosine);
  EXPECT_EQ(parse_schedule("constant"), Schedule::Kind::kConstant);
  EXPECT_THROW((void)parse_schedule("linear"), Error);
}

TEST(Schedule, BiasCorrections) {
  EXPECT_DOUBLE_EQ(bias_correction(0.9, 0), 1 - 0.9);
  EXPECT_DOUBLE_EQ(bias_correction(0.999, 9), 1 - std::pow(0.999, 10));
  EXPECT_DOUBLE_EQ(bias_correction(0, 0), 1);
}

}  // namespace
}  // namespace plimsoll
