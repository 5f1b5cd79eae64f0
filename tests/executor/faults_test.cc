// Faults of one rank among many: the run ends in bounded time with one message that names it.
#include "base/error.h"
#include "executor/checkpoint.h"
#include "tests/executor/equivalence.h"
#include "tests/executor/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// Data that go wrong for one data-parallel rank at one step.
class FaultyData final : public DataSource {
 public:
  enum class Fault : uint8_t { kThrows, kHangs, kNotANumber };
  FaultyData(const DataSource& data, Fault fault, int64_t step)
      : data_(data), fault_(fault), step_(step) {}

  void fill(std::string_view field, Split split, int64_t batch, int64_t first, int64_t count,
            const Operand& out) const override {
    data_.fill(field, split, batch, first, count, out);
    if (split != Split::kTrain || batch != step_ || first < 4) return;
    switch (fault_) {
      case Fault::kThrows:
        throw run_failed("the disk is gone");
      case Fault::kHangs:
        while (!let_go_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return;
      case Fault::kNotANumber:
        if (out.dtype == DType::kF32) *out.as<float>() = std::numeric_limits<float>::quiet_NaN();
        return;
    }
  }
  [[nodiscard]] int64_t valid_targets(Split split, int64_t batch) const override {
    return data_.valid_targets(split, batch);
  }
  [[nodiscard]] std::optional<int64_t> num_samples(Split split) const override {
    return data_.num_samples(split);
  }
  [[nodiscard]] std::string description() const override { return "faulty"; }
  [[nodiscard]] int64_t resident_bytes() const override { return 0; }

  void let_go() { let_go_ = true; }

 private:
  const DataSource& data_;
  Fault fault_;
  int64_t step_;
  std::atomic<bool> let_go_ = false;
};

struct Outcome {
  std::optional<Error> error;
  double seconds = 0;
  std::string stuck;
};

Outcome run_faulty(const ModelSpec& model, const Strategy& strategy, FaultyData::Fault fault,
                   double watchdog_seconds, const std::string& folder = "") {
  const Job job = test::small_job(model, DType::kF32);
  const std::vector<StepProgram> programs = lower_ranks(model, job, strategy, {});
  const auto good = open_data("", describe_data(programs), {});
  FaultyData data(*good, fault, 2);
  TrainOptions options = test::small_options(6);
  options.watchdog_seconds = watchdog_seconds;
  options.out_dir = folder;
  options.checkpoint_every = folder.empty() ? 0 : 1;
  Outcome outcome;
  TrainCallbacks callbacks;
  callbacks.on_stuck = [&](const std::string& message) {
    outcome.stuck = message;
    data.let_go();
  };
  const auto begin = std::chrono::steady_clock::now();
  try {
    train(programs, data, options, callbacks);
  } catch (const Error& error) {
    outcome.error = error;
  }
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

std::vector<Strategy> strategies() {
  std::vector<Strategy> all;
  for (const auto& [dp, tp, pp, zero] : std::vector<std::array<int, 4>>{
           {2, 1, 1, 0}, {2, 1, 1, 3}, {2, 2, 1, 1}, {2, 1, 2, 0}, {2, 2, 2, 2}}) {
    Strategy s;
    s.dp = dp;
    s.tp = tp;
    s.pp = pp;
    s.zero = zero;
    s.recompute.assign(4, Recompute::kNone);
    all.push_back(s);
  }
  return all;
}

TEST(Faults, ARankThatThrowsEndsAllWithOneMessage) {
  const ModelSpec model = test::small_model("gpt2");
  for (const Strategy& strategy : strategies()) {
    test::Scratch scratch;
    const Outcome outcome =
        run_faulty(model, strategy, FaultyData::Fault::kThrows, 60, scratch.path("run"));
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->code(), ExitCode::kRunFailed);
    EXPECT_THAT(outcome.error->what(),
                MatchesRegex("rank [0-9]+, step 2, phase 'step', segment '[a-z-]+', instruction "
                             "[0-9]+ \\(load_batch\\): the disk is gone"));
    EXPECT_LT(outcome.seconds, 20);
    EXPECT_EQ(outcome.stuck, "");
    // The last checkpoint is good.
    const FoundCheckpoint found = find_newest_checkpoint(scratch.path("run/checkpoints"));
    ASSERT_TRUE(found.checkpoint);
    EXPECT_EQ(found.checkpoint->state.step, 2);
    EXPECT_TRUE(found.warnings.empty());
  }
}

TEST(Faults, ARankThatHangsIsNamedByThoseThatWait) {
  const ModelSpec model = test::small_model("gpt2");
  for (const Strategy& strategy : strategies()) {
    const Outcome outcome = run_faulty(model, strategy, FaultyData::Fault::kHangs, 0.3);
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->code(), ExitCode::kRunFailed);
    EXPECT_THAT(outcome.error->what(),
                AllOf(HasSubstr("waited 0.3 s"),
                      ::testing::ContainsRegex("rank [0-9]+ is at phase 'step', segment '[a-z-]+', "
                                               "instruction [0-9]+ \\(load_batch\\)")));
    EXPECT_THAT(outcome.stuck, HasSubstr("do not end"));
    EXPECT_LT(outcome.seconds, 20);
  }
}

TEST(Faults, WhatIsNotANumberEndsTheRun) {
  const ModelSpec model = test::small_model("mlp");
  for (const int zero : {0, 1, 2, 3}) {
    Strategy strategy;
    strategy.dp = 2;
    strategy.zero = zero;
    strategy.recompute.assign(static_cast<size_t>(model.layers), Recompute::kNone);
    const Outcome outcome = run_faulty(model, strategy, FaultyData::Fault::kNotANumber, 60);
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->code(), ExitCode::kRunFailed);
    EXPECT_THAT(outcome.error->what(), AllOf(HasSubstr("step 2, rank"), HasSubstr("nan")));
  }
}

// A signal ends all ranks behind the same step, with a checkpoint that goes on bit for bit.
TEST(Faults, ASignalWritesACheckpointOfAllRanks) {
  const ModelSpec model = test::small_model("gpt2");
  const Job job = test::small_job(model, DType::kF32);
  const Strategy strategy = strategies().back();
  const test::SmallRun whole = test::train_small(model, job, strategy, test::small_options(6));
  test::Scratch scratch;
  const std::vector<StepProgram> programs = lower_ranks(model, job, strategy, {});
  const auto data = open_data("", describe_data(programs), {});
  std::atomic<int> signal = 0;
  TrainOptions options = test::small_options(6);
  options.out_dir = scratch.path("run");
  options.signal = &signal;
  TrainCallbacks callbacks;
  callbacks.on_step = [&](const StepMetrics& metrics) {
    if (metrics.step == 3) signal = 15;
  };
  const TrainResult stopped = train(programs, *data, options, callbacks);
  EXPECT_EQ(stopped.stop, StopReason::kInterrupted);
  EXPECT_EQ(stopped.signal, 15);
  EXPECT_EQ(stopped.steps, 4);
  options.signal = nullptr;
  options.resume = true;
  const test::SmallRun rest = test::train_small(model, job, strategy, options);
  EXPECT_EQ(rest.losses, std::vector<float>(whole.losses.begin() + 4, whole.losses.end()));
}

}  // namespace
}  // namespace plimsoll
