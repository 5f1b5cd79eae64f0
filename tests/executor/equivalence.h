// Small models trained under a strategy, for tests that hold strategies against one another.
#pragma once

#include "executor/trainer.h"
#include "planner/lower/lower.h"
#include "tests/planner/random_model.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plimsoll::test {

// Heads that 4 ranks can divide, key/value heads that they cannot, and a vocabulary with padding.
inline ModelSpec small_model(const std::string& family, int64_t layers = 4) {
  if (family == "mlp" || family == "resnet")
    return load_model(family + (family == "mlp" ? "" : "-tiny"));
  return testing::random_transformer(family + "-tiny", layers, 4, 4, 70);
}

inline Job small_job(const ModelSpec& model, DType precision, int64_t global_batch = 8) {
  Job job;
  job.global_batch = global_batch;
  if (model.training_length > 0) job.seq = 8;
  job.precision = precision;
  job.gradient_type = precision;
  job.state_type = precision;
  if (model.family == Family::kGpt2) job.dropout = 0.1;
  job.eval_batches = 1;
  return job;
}

// The strategy on one device: the same micro-batch and kernels, and nothing split or made again.
inline Strategy on_one_device(Strategy strategy) {
  Strategy one;
  one.micro_batch = strategy.micro_batch;
  one.attention = strategy.attention;
  one.loss_chunks = strategy.loss_chunks;
  one.recompute.assign(strategy.recompute.size(), Recompute::kNone);
  return one;
}

inline TrainOptions small_options(int64_t steps) {
  TrainOptions options;
  options.steps = steps;
  options.schedule.learning_rate = 5e-3;
  options.threads_per_rank = 1;
  options.watchdog_seconds = 60;
  options.poison = true;
  return options;
}

struct SmallRun {
  std::vector<float> losses;
  std::vector<double> norms;
  TrainResult result;
};

// Trains and checks that every rank used the arena that was predicted, to the byte.
inline SmallRun train_small(const ModelSpec& model, const Job& job, const Strategy& strategy,
                            const TrainOptions& options) {
  const std::vector<StepProgram> programs = lower_ranks(model, job, strategy, {});
  const auto data = open_data("", describe_data(programs), {.seed = options.seed});
  SmallRun run;
  TrainCallbacks callbacks;
  callbacks.on_step = [&](const StepMetrics& metrics) {
    run.losses.push_back(metrics.loss);
    run.norms.push_back(metrics.gradient_norm);
  };
  run.result = train(programs, *data, options, callbacks);
  for (const RankReport& rank : run.result.ranks) {
    EXPECT_EQ(rank.measured_arena_bytes, rank.predicted_arena_bytes) << "rank " << rank.rank;
    EXPECT_TRUE(rank.guard_intact);
  }
  return run;
}

}  // namespace plimsoll::test
