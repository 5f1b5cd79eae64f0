#include "executor/telemetry.h"

#include "base/error.h"
#include "base/files.h"
#include "tests/executor/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>

namespace plimsoll {
namespace {

using test::Scratch;
using testing::HasSubstr;

StepMetrics some_metrics(int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.tokens = 100 * (step + 1);
  metrics.loss = 2.5F;
  metrics.learning_rate = 1e-3;
  metrics.gradient_norm = 0.75;
  metrics.step_seconds = 0.01;
  metrics.tokens_per_second = 10000;
  return metrics;
}

TEST(Telemetry, ARowHasACellForEveryHeading) {
  StepMetrics metrics = some_metrics(3);
  EXPECT_EQ(metrics_row(metrics), "3,400,2.5,0.001,0.75,,0.01,10000,,\n");
  metrics.noise_scale = 12.5;
  metrics.mfu = 0.25;
  metrics.validation_loss = 2.25F;
  EXPECT_EQ(metrics_row(metrics), "3,400,2.5,0.001,0.75,12.5,0.01,10000,0.25,2.25\n");
  const std::string heading = metrics_header();
  EXPECT_EQ(std::count(heading.begin(), heading.end(), ','), 9);
}

RC_GTEST_PROP(Telemetry, LossesReadBackToTheSameFloat, (uint32_t bits)) {
  const auto loss = std::bit_cast<float>(bits);
  RC_PRE(std::isfinite(loss));
  StepMetrics metrics = some_metrics(0);
  metrics.loss = loss;
  const std::string row = metrics_row(metrics);
  const float read = std::strtof(row.c_str() + row.find(',', 2) + 1, nullptr);
  RC_ASSERT(std::bit_cast<uint32_t>(read) == bits);
}

TEST(Telemetry, EveryRowIsInTheFileAtOnce) {
  Scratch scratch;
  MetricsWriter writer(scratch.path("m.csv"), 0);
  for (int64_t step = 0; step < 3; ++step) {
    writer.append(some_metrics(step));
    const std::string text = read_file(scratch.path("m.csv"));
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), step + 2);
  }
}

TEST(Telemetry, AResumedFileIsCut) {
  Scratch scratch;
  const std::string path = scratch.path("m.csv");
  {
    MetricsWriter writer(path, 0);
    for (int64_t step = 0; step < 10; ++step) writer.append(some_metrics(step));
  }
  { MetricsWriter writer(path, 4); }
  std::string text = read_file(path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5);
  EXPECT_THAT(text, HasSubstr("\n3,"));
  // A row that a crash cut off goes, and what cannot be read.
  scratch.write("m.csv", text + "4,50");
  { MetricsWriter writer(path, 9); }
  EXPECT_EQ(read_file(path), text);
  scratch.write("m.csv", "garbage");
  { MetricsWriter writer(path, 9); }
  EXPECT_EQ(read_file(path), metrics_header());
  { MetricsWriter writer(path, 0); }
  EXPECT_EQ(read_file(path), metrics_header());
}

TEST(Telemetry, AFolderThatDoesNotExistIsAFailedRun) {
  Scratch scratch;
  try {
    MetricsWriter writer(scratch.path("no/m.csv"), 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRunFailed);
  }
}

}  // namespace
}  // namespace plimsoll
