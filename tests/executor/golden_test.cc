// A tiny GPT-2 whose ten losses under AdamW llm.c and PyTorch agree on to 1e-6: read from llm.c's
// files, lowered, placed and interpreted.
#include "base/error.h"
#include "executor/trainer.h"
#include "models/model.h"
#include "planner/lower/lower.h"
#include "tests/executor/llmc_files.h"
#include "tests/executor/scratch.h"

#include <gtest/gtest.h>

#include <array>

namespace plimsoll {
namespace {

constexpr std::array<double, 10> kLosses = {5.555596, 5.295872, 5.109955, 4.963499, 4.849526,
                                            4.750334, 4.661499, 4.580235, 4.503630, 4.430245};
constexpr double kFirstNorm = 1.658302;

ModelSpec golden_spec(const test::GoldenShape& shape) {
  ModelSpec spec = load_model("gpt2");
  spec.layers = shape.layers;
  spec.hidden = shape.channels;
  spec.heads = shape.heads;
  spec.kv_heads = shape.heads;
  spec.head_dim = shape.channels / shape.heads;
  spec.feed_forward = 4 * shape.channels;
  spec.vocabulary = shape.vocabulary;
  spec.max_positions = shape.positions;
  return spec;
}

std::vector<StepMetrics> train_golden(Strategy strategy) {
  const test::Scratch scratch;
  const test::GoldenShape shape;
  Job job;
  job.global_batch = 4;
  job.seq = 32;
  job.decay_all = true;
  job.clip = 0;
  strategy.recompute.resize(static_cast<size_t>(shape.layers), Recompute::kNone);
  const StepProgram first = lower(golden_spec(shape), job, strategy, {});
  std::vector<StepProgram> programs;
  for (int rank = 0; rank < strategy.dp; ++rank) programs.push_back(for_rank(first, rank));

  TrainOptions options;
  options.steps = 10;
  options.schedule.learning_rate = 1e-3;
  options.init_file = scratch.write("model.bin", test::golden_model(shape));
  options.threads_per_rank = 1;
  options.poison = true;
  const auto data =
      open_data(scratch.write("tokens.bin", test::token_file(test::golden_tokens(4 * 32 + 1, 256))),
                describe_data(first), {.validation_fraction = 0, .shuffle = false});
  std::vector<StepMetrics> steps;
  TrainCallbacks callbacks;
  callbacks.on_step = [&](const StepMetrics& metrics) { steps.push_back(metrics); };
  const TrainResult result = train(programs, *data, options, callbacks);
  for (const RankReport& rank : result.ranks) {
    EXPECT_EQ(rank.measured_arena_bytes, rank.predicted_arena_bytes);
  }
  return steps;
}

void expect_golden(const std::vector<StepMetrics>& steps) {
  ASSERT_EQ(steps.size(), kLosses.size());
  EXPECT_NEAR(steps[0].loss, kLosses[0], 1e-5);
  EXPECT_NEAR(steps[0].gradient_norm, kFirstNorm, 1e-5 * kFirstNorm);
  for (size_t i = 0; i < kLosses.size(); ++i) {
    EXPECT_NEAR(steps[i].loss, kLosses[i], 2e-5) << "step " << i;
  }
}

TEST(Golden, TokensAreThoseOfTheSetup) {
  EXPECT_EQ(test::golden_tokens(6, 256), (std::vector<uint16_t>{97, 254, 176, 43, 21, 205}));
  EXPECT_EQ(test::golden_tokens(6, 50257),
            (std::vector<uint16_t>{42623, 39320, 11223, 4239, 5346, 10596}));
}

Strategy strategy_of(int dp, int64_t micro_batch) {
  Strategy strategy;
  strategy.dp = dp;
  strategy.micro_batch = micro_batch;
  return strategy;
}

TEST(Golden, OneDeviceWithAndWithoutRecompute) {
  Strategy strategy = strategy_of(1, 4);
  const std::vector<StepMetrics> plain = train_golden(strategy);
  expect_golden(plain);
  for (const auto& recompute : {std::vector{Recompute::kFull, Recompute::kFull},
                                {Recompute::kSelective, Recompute::kSelective},
                                {Recompute::kFull, Recompute::kSelective}}) {
    strategy.recompute = recompute;
    const std::vector<StepMetrics> again = train_golden(strategy);
    ASSERT_EQ(again.size(), plain.size());
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(again[i].loss, plain[i].loss);
  }
}

TEST(Golden, Accumulation) { expect_golden(train_golden(strategy_of(1, 1))); }
TEST(Golden, DataParallel) { expect_golden(train_golden(strategy_of(2, 2))); }
TEST(Golden, DataParallelWithAccumulation) { expect_golden(train_golden(strategy_of(2, 1))); }
TEST(Golden, NaiveAttentionAndChunkedLoss) {
  Strategy strategy = strategy_of(1, 4);
  strategy.attention = "naive";
  strategy.loss_chunks = 4;
  expect_golden(train_golden(strategy));
}

}  // namespace
}  // namespace plimsoll
