#include "executor/telemetry.h"

#include "base/error.h"
#include "base/files.h"
#include "executor/summary.h"
#include "tests/executor/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
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
  EXPECT_EQ(metrics_row(metrics), "3,400,2.5,0.001,0.75,,0.01,10000,,,\n");
  metrics.noise_scale = 12.5;
  metrics.mfu = 0.25;
  metrics.validation_loss = 2.25F;
  metrics.validation_accuracy = 0.5;
  EXPECT_EQ(metrics_row(metrics), "3,400,2.5,0.001,0.75,12.5,0.01,10000,0.25,2.25,0.5\n");
  const std::string heading = metrics_header();
  EXPECT_EQ(std::count(heading.begin(), heading.end(), ','), 10);
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

TEST(Summary, HasTheFieldsThatOthersRead) {
  TrainResult result;
  result.steps = 20;
  result.final_loss = 1.5F;
  result.ranks = {{.rank = 0,
                   .predicted_arena_bytes = 1024,
                   .measured_arena_bytes = 1024,
                   .guard_intact = true,
                   .predicted_peak_bytes = 2048,
                   .device_memory_bytes = 4096}};
  result.measured_step_seconds = 0.25;
  const auto json =
      nlohmann::json::parse(summary_json(result, {{"seed", "7"}, {"command", "plimsoll \xff"}}));
  for (const char* name :
       {"steps", "final_loss", "resumed_from_step", "ranks", "predicted_step_seconds",
        "measured_step_seconds", "resident_bytes", "environment"}) {
    EXPECT_TRUE(json.contains(name)) << name;
  }
  EXPECT_TRUE(json["resumed_from_step"].is_null());
  EXPECT_EQ(json["ranks"][0]["measured_arena_bytes"], 1024);
  EXPECT_EQ(json["ranks"][0]["device_memory_bytes"], 4096);
  EXPECT_EQ(json["environment"]["seed"], "7");
}

}  // namespace
}  // namespace plimsoll
