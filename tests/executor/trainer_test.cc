#include "executor/trainer.h"

#include "base/error.h"
#include "base/noise.h"
#include "base/rng.h"
#include "tests/executor/regression_program.h"
#include "tests/executor/sanitized.h"
#include "tests/executor/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>

namespace plimsoll {
namespace {

using test::kSanitized;
using test::regression_programs;
using test::RegressionOptions;
using test::Scratch;
using testing::HasSubstr;

struct Training {
  TrainResult result;
  std::vector<StepMetrics> steps;
  std::vector<std::string> messages;
};

TrainOptions quick_options() {
  TrainOptions options;
  options.steps = 20;
  options.schedule.learning_rate = 0.05;
  options.threads_per_rank = 1;
  options.watchdog_seconds = 20;
  return options;
}

Training run(const RegressionOptions& program_options, const TrainOptions& options,
             const std::string& path = "", const DataOptions& data_options = {}) {
  Training training;
  const std::vector<StepProgram> programs = regression_programs(program_options);
  const auto data = open_data(path, describe_data(programs.front()), data_options);
  TrainCallbacks callbacks;
  callbacks.on_step = [&](const StepMetrics& metrics) { training.steps.push_back(metrics); };
  callbacks.on_message = [&](const std::string& message) { training.messages.push_back(message); };
  training.result = train(programs, *data, options, callbacks);
  return training;
}

std::vector<float> losses(const Training& training) {
  std::vector<float> values;
  for (const StepMetrics& step : training.steps) values.push_back(step.loss);
  return values;
}

template <typename Call>
Error error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return run_failed("nothing was thrown");
}

TEST(Trainer, LossFallsToTheNoise) {
  TrainOptions options = quick_options();
  options.steps = 150;
  const Training trained = run({.global_batch = 32, .micro_batch = 32}, options);
  ASSERT_EQ(trained.steps.size(), 150U);
  EXPECT_GT(trained.steps.front().loss, 0.2F);
  EXPECT_LT(trained.steps.back().loss, 0.03F);  // the noise has variance 0.01
  EXPECT_GT(trained.steps.back().loss, 0.002F);
}

TEST(Trainer, MeasuredArenaIsThePredictedOne) {
  for (const int dp : {1, 2}) {
    const Training trained = run({.dp = dp, .micro_batch = 4, .eval_batches = 1}, quick_options());
    ASSERT_EQ(trained.result.ranks.size(), static_cast<size_t>(dp));
    for (const RankReport& rank : trained.result.ranks) {
      EXPECT_GT(rank.predicted_arena_bytes, 0);
      EXPECT_EQ(rank.measured_arena_bytes, rank.predicted_arena_bytes);
      EXPECT_TRUE(rank.guard_intact);
    }
  }
}

TEST(Trainer, SameBitsFromRunToRunAndUnderAnyThreads) {
  const RegressionOptions program{.dp = 2, .global_batch = 8, .micro_batch = 2};
  TrainOptions options = quick_options();
  const std::vector<float> first = losses(run(program, options));
  EXPECT_EQ(losses(run(program, options)), first);
  options.threads_per_rank = 3;
  EXPECT_EQ(losses(run(program, options)), first);
}

// Accumulation and data parallel only change the order of sums of 16 terms.
TEST(Trainer, OneLossAnyPlan) {
  const std::vector<float> plain =
      losses(run({.global_batch = 8, .micro_batch = 8}, quick_options()));
  for (const RegressionOptions& other :
       {RegressionOptions{.dp = 1, .global_batch = 8, .micro_batch = 2},
        RegressionOptions{.dp = 2, .global_batch = 8, .micro_batch = 4},
        RegressionOptions{.dp = 4, .global_batch = 8, .micro_batch = 1},
        RegressionOptions{.dp = 2, .global_batch = 8, .micro_batch = 1, .copies = 3}}) {
    const std::vector<float> values = losses(run(other, quick_options()));
    ASSERT_EQ(values.size(), plain.size());
    for (size_t i = 0; i < plain.size(); ++i) {
      EXPECT_NEAR(values[i], plain[i], 2e-6 * (1 + plain[i])) << "step " << i;
    }
  }
}

TEST(Trainer, SeedChangesTheRun) {
  TrainOptions options = quick_options();
  const std::vector<float> first = losses(run({}, options));
  options.seed = 1;
  EXPECT_NE(losses(run({}, options)), first);
}

TEST(Trainer, PeakBeyondTheDeviceIsInfeasible) {
  const std::vector<StepProgram> programs = regression_programs({});
  TrainOptions options = quick_options();
  options.device_memory_bytes = programs.front().peak_bytes();
  EXPECT_EQ(run({}, options).result.steps, options.steps);
  --options.device_memory_bytes;
  const Error error = error_of([&] { run({}, options); });
  EXPECT_EQ(error.code(), ExitCode::kInfeasible);
  EXPECT_THAT(error.what(), HasSubstr("bytes"));
}

TEST(Trainer, EvaluationCountsTheWholeValidationSet) {
  TrainOptions options = quick_options();
  options.eval_every = 5;
  const Training one = run({.micro_batch = 8, .eval_batches = 3}, options);
  const Training two = run({.dp = 2, .micro_batch = 2, .eval_batches = 3}, options);
  ASSERT_TRUE(one.result.validation_loss && two.result.validation_loss);
  EXPECT_NEAR(*one.result.validation_loss, *two.result.validation_loss, 1e-6);
  int evaluated = 0;
  for (const StepMetrics& step : one.steps) {
    EXPECT_EQ(step.validation_loss.has_value(), (step.step + 1) % 5 == 0);
    evaluated += step.validation_loss ? 1 : 0;
  }
  EXPECT_EQ(evaluated, 4);
}

TEST(Trainer, StopsOnTheTargetLoss) {
  TrainOptions options = quick_options();
  options.steps = 1000;
  options.eval_every = 1;
  options.target_loss = 0.05;
  const Training trained = run({.global_batch = 32, .micro_batch = 32, .eval_batches = 1}, options);
  EXPECT_EQ(trained.result.stop, StopReason::kTargetLoss);
  EXPECT_LT(trained.result.steps, 200);
  EXPECT_LE(*trained.result.validation_loss, 0.05F);
  for (size_t i = 0; i + 1 < trained.steps.size(); ++i) {
    EXPECT_GT(*trained.steps[i].validation_loss, 0.05F);
  }
}

TEST(Trainer, StopsWhenNothingImproves) {
  TrainOptions options = quick_options();
  options.steps = 1000;
  options.eval_every = 1;
  options.patience = 3;
  options.schedule.learning_rate = 0;  // the first evaluation stays the best
  const Training trained = run({.eval_batches = 1}, options);
  EXPECT_EQ(trained.result.stop, StopReason::kConverged);
  EXPECT_EQ(trained.result.steps, 4);
}

TEST(Trainer, DivergenceNamesTheStep) {
  TrainOptions options = quick_options();
  options.steps = 1000;
  options.schedule.learning_rate = 1e20;
  for (const int dp : {1, 2}) {
    const Error error = error_of([&] { run({.dp = dp, .micro_batch = 4}, options); });
    EXPECT_EQ(error.code(), ExitCode::kRunFailed);
    EXPECT_THAT(error.what(), HasSubstr("step "));
    EXPECT_THAT(error.what(), HasSubstr("rank "));
  }
}

// The estimator's buffer is a sum over ranks of norms of gradients scaled by the global batch.
TEST(Trainer, NoiseScaleMatchesGradientsOfTheHalves) {
  TrainOptions options = quick_options();
  options.steps = 1;
  const Training both = run({.dp = 2, .global_batch = 8, .micro_batch = 4, .momentum = 0}, options);
  // By hand, from the data and the initial values: gradients of the two halves.
  const std::vector<StepProgram> programs = regression_programs({});
  const auto data = open_data("", describe_data(programs.front()), {});
  const Shape x_shape{8, 3};
  const Shape y_shape{8, 2};
  std::vector<float> x(24);
  std::vector<float> y(16);
  data->fill("features", Split::kTrain, 0, 0, 8, {x.data(), DType::kF32, &x_shape});
  data->fill("values", Split::kTrain, 0, 0, 8, {y.data(), DType::kF32, &y_shape});
  std::vector<double> w(6);
  for (size_t i = 0; i < w.size(); ++i) {
    w[i] = static_cast<float>(rng_normal(0, rng_purpose("init:weight"), i) * 0.5);
  }
  std::vector<std::vector<double>> half(2, std::vector<double>(8, 0.0));
  for (size_t sample = 0; sample < 8; ++sample) {
    for (size_t d = 0; d < 2; ++d) {
      double error = -y[sample * 2 + d];
      for (size_t k = 0; k < 3; ++k) error += w[d * 3 + k] * x[sample * 3 + k];
      for (size_t k = 0; k < 3; ++k)
        half[sample / 4][d * 3 + k] += 2 * error * x[sample * 3 + k] / 8;
      half[sample / 4][6 + d] += 2 * error / 8;
    }
  }
  double small = 0;
  double big = 0;
  for (size_t i = 0; i < 8; ++i) {
    small += (half[0][i] * half[0][i] + half[1][i] * half[1][i]) / 2;
    big += std::pow((half[0][i] + half[1][i]) / 2, 2);
  }
  EXPECT_NEAR(both.steps[0].gradient_norm, std::sqrt(big), 1e-6);
  const NoiseMoments expected = noise_moments(small, big, 4, 8);
  if (expected.signal > 0) {
    ASSERT_TRUE(both.steps[0].noise_scale.has_value());
    EXPECT_NEAR(*both.steps[0].noise_scale, expected.noise / expected.signal,
                1e-4 * expected.noise / expected.signal);
  } else {
    EXPECT_FALSE(both.steps[0].noise_scale.has_value());
  }
}

TEST(Trainer, ResumeIsBitwiseAndCutsTheMetrics) {
  Scratch scratch;
  const RegressionOptions program{.dp = 2, .global_batch = 8, .micro_batch = 2, .eval_batches = 1};
  TrainOptions options = quick_options();
  options.eval_every = 4;
  const std::vector<float> whole = losses(run(program, options));

  options.out_dir = scratch.path("run");
  options.checkpoint_every = 6;
  options.keep_checkpoints = 9;
  options.steps = 15;
  run(program, options);  // checkpoints at 6, 12 and 15
  std::filesystem::remove_all(scratch.path("run/checkpoints/step_00000015"));
  options.resume = true;
  options.steps = 20;
  const Training resumed = run(program, options);
  EXPECT_EQ(resumed.result.resumed_from_step, 12);
  EXPECT_EQ(losses(resumed), std::vector<float>(whole.begin() + 12, whole.end()));

  std::ifstream file(scratch.path("run/metrics.csv"));
  std::string line;
  std::getline(file, line);
  for (int step = 0; step < 20; ++step) {
    ASSERT_TRUE(std::getline(file, line)) << step;
    EXPECT_EQ(std::stoi(line), step);
    const size_t loss_at = line.find(',', line.find(',') + 1) + 1;
    EXPECT_EQ(std::strtof(line.c_str() + loss_at, nullptr), whole[static_cast<size_t>(step)]);
  }
  EXPECT_FALSE(std::getline(file, line));

  // One rank more or fewer: the same loss but for the order of sums.
  std::filesystem::remove_all(scratch.path("run/checkpoints/step_00000018"));
  std::filesystem::remove_all(scratch.path("run/checkpoints/step_00000020"));
  const Training other =
      run({.dp = 1, .global_batch = 8, .micro_batch = 8, .eval_batches = 1}, options);
  ASSERT_EQ(other.result.resumed_from_step, 12);
  for (size_t i = 0; i < other.steps.size(); ++i) {
    EXPECT_NEAR(other.steps[i].loss, whole[12 + i], 2e-6);
  }
}

TEST(Trainer, AFinishedRunIsNotOverwritten) {
  Scratch scratch;
  TrainOptions options = quick_options();
  options.out_dir = scratch.path("run");
  options.checkpoint_every = 10;
  run({}, options);
  const Error error = error_of([&] { run({}, options); });
  EXPECT_EQ(error.code(), ExitCode::kBadInput);
  EXPECT_THAT(error.hint(), HasSubstr("--resume"));
}

TEST(Trainer, ResumeWithoutCheckpointStartsAnewWithAWarning) {
  Scratch scratch;
  TrainOptions options = quick_options();
  options.out_dir = scratch.path("run");
  options.resume = true;
  const Training trained = run({}, options);
  EXPECT_EQ(trained.result.resumed_from_step, -1);
  ASSERT_FALSE(trained.messages.empty());
  EXPECT_THAT(trained.messages.front(), HasSubstr("warning"));
}

TEST(Trainer, ASignalWritesACheckpointAndEnds) {
  Scratch scratch;
  std::atomic<int> signal{0};
  TrainOptions options = quick_options();
  options.steps = 100000;
  options.out_dir = scratch.path("run");
  options.signal = &signal;
  const std::vector<StepProgram> programs = regression_programs({.dp = 2, .micro_batch = 4});
  const auto data = open_data("", describe_data(programs.front()), {});
  TrainCallbacks callbacks;
  callbacks.on_step = [&](const StepMetrics& metrics) {
    if (metrics.step == 7) signal = SIGTERM;
  };
  const TrainResult result = train(programs, *data, options, callbacks);
  EXPECT_EQ(result.stop, StopReason::kInterrupted);
  EXPECT_EQ(result.signal, SIGTERM);
  EXPECT_EQ(result.steps, 8);
  EXPECT_TRUE(std::filesystem::exists(scratch.path("run/checkpoints/step_00000008/manifest.json")));
}

// What a data source throws in one rank ends all ranks, and is what the caller sees.
class FailingData final : public DataSource {
 public:
  FailingData(const DataSource& data, int64_t batch) : data_(data), batch_(batch) {}
  void fill(std::string_view field, Split split, int64_t batch, int64_t first, int64_t count,
            const Operand& out) const override {
    if (batch == batch_ && first > 0) throw run_failed("the disk is gone");
    data_.fill(field, split, batch, first, count, out);
  }
  [[nodiscard]] int64_t valid_targets(Split split, int64_t batch) const override {
    return data_.valid_targets(split, batch);
  }
  [[nodiscard]] std::optional<int64_t> num_samples(Split split) const override {
    return data_.num_samples(split);
  }
  [[nodiscard]] std::string description() const override { return "failing"; }
  [[nodiscard]] int64_t resident_bytes() const override { return 0; }

 private:
  const DataSource& data_;
  int64_t batch_;
};

TEST(Trainer, OneFailingRankEndsTheRun) {
  const std::vector<StepProgram> programs = regression_programs({.dp = 4, .micro_batch = 2});
  const auto data = open_data("", describe_data(programs.front()), {});
  const FailingData failing(*data, 3);
  const Error error = error_of([&] { train(programs, failing, quick_options()); });
  EXPECT_EQ(error.code(), ExitCode::kRunFailed);
  EXPECT_THAT(error.what(), testing::EndsWith("instruction 0 (load_batch): the disk is gone"));
  EXPECT_THAT(error.what(), testing::ContainsRegex("^rank [123], step 3, phase 'step'"));
}

TEST(Trainer, MetricsOnAFullDisk) {
  Scratch scratch;
  std::filesystem::create_directories(scratch.path("run"));
  std::filesystem::create_symlink("/dev/full", scratch.path("run/metrics.csv"));
  TrainOptions options = quick_options();
  options.out_dir = scratch.path("run");
  options.resume = true;
  const Error error = error_of([&] { run({}, options); });
  EXPECT_EQ(error.code(), ExitCode::kRunFailed);
  EXPECT_THAT(error.what(), HasSubstr("metrics.csv"));
}

TEST(Trainer, ResidentGrowthCoversTheArenas) {
  if (kSanitized) GTEST_SKIP() << "the memory of the sanitizer itself comes and goes";
  // Large enough that the arena is most of the growth: 8 MiB of inputs.
  const Training trained =
      run({.global_batch = 2048, .micro_batch = 2048, .inputs = 1024, .outputs = 1}, [] {
        TrainOptions options = quick_options();
        options.steps = 1;
        return options;
      }());
  const ResidentGrowth& resident = trained.result.resident;
  EXPECT_GE(resident.arenas_bytes, int64_t{2048} * 1024 * 4);
  EXPECT_GE(resident.growth_bytes(), resident.arenas_bytes);
  EXPECT_LT(resident.rest_bytes(), int64_t{64} << 20);
}

}  // namespace
}  // namespace plimsoll
