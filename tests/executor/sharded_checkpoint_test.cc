// Checkpoints of sharded runs: whole tensors in the files, and resumed under the same plan bit for
// bit, under another one within rounding.
#include "executor/checkpoint.h"
#include "executor/safetensors.h"
#include "tests/executor/equivalence.h"
#include "tests/executor/scratch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

namespace plimsoll {
namespace {

using test::on_one_device;
using test::Scratch;
using test::small_job;
using test::small_model;
using test::small_options;
using test::SmallRun;
using test::train_small;

constexpr int64_t kBefore = 3;  // steps up to the checkpoint
constexpr int64_t kSteps = 6;

struct Split {
  int dp, tp, pp, zero;
  int interleave = 1;
};

// Padded vocabulary, key/value heads with copies, tied embeddings in two stages, uneven shards.
const std::vector<Split> kSplits = {{2, 4, 2, 1}, {4, 1, 1, 3},    {1, 4, 1, 0},
                                    {3, 1, 2, 2}, {2, 1, 2, 1, 2}, {1, 1, 1, 0}};

Strategy strategy_of(const Split& split) {
  Strategy s;
  s.dp = split.dp;
  s.tp = split.tp;
  s.pp = split.pp;
  s.zero = split.zero;
  s.interleave = split.interleave;
  if (split.interleave > 1) s.schedule = "interleaved";
  s.sequence_parallel = split.tp > 1;
  s.recompute.assign(4, Recompute::kNone);
  return s;
}

TrainOptions options_in(const std::string& folder, int64_t steps) {
  TrainOptions options = small_options(steps);
  options.out_dir = folder;
  options.checkpoint_every = kBefore;
  return options;
}

std::string text_of(const Split& s) {
  return fmt::format("dp {} tp {} pp {} × {} zero {}", s.dp, s.tp, s.pp, s.interleave, s.zero);
}

class ShardedCheckpoint : public ::testing::TestWithParam<const char*> {};

TEST_P(ShardedCheckpoint, AnyPlanGoesOnFromAnyOther) {
  const ModelSpec model = small_model(GetParam());
  const Job job = small_job(model, DType::kF64, 12);
  for (const Split& from : kSplits) {
    Scratch scratch;
    const SmallRun whole = train_small(model, job, strategy_of(from), small_options(kSteps));
    train_small(model, job, strategy_of(from), options_in(scratch.path("run"), kBefore));
    for (const Split& to : kSplits) {
      SCOPED_TRACE(text_of(from) + " to " + text_of(to));
      std::filesystem::remove_all(scratch.path("other"));
      std::filesystem::copy(scratch.path("run"), scratch.path("other"),
                            std::filesystem::copy_options::recursive);
      TrainOptions options = options_in(scratch.path("other"), kSteps);
      options.resume = true;
      const SmallRun rest = train_small(model, job, strategy_of(to), options);
      EXPECT_EQ(rest.result.resumed_from_step, kBefore);
      ASSERT_EQ(rest.losses.size(), static_cast<size_t>(kSteps - kBefore));
      const bool same = text_of(from) == text_of(to);
      for (size_t i = 0; i < rest.losses.size(); ++i) {
        const float expected = whole.losses[i + kBefore];
        // In double precision two plans differ by less than a float shows, see equivalence_test.cc.
        EXPECT_NEAR(rest.losses[i], expected, same ? 0 : std::ldexp(expected, -23)) << "step " << i;
      }
    }
  }
}

// What one device would write: every tensor, whole, in its exported layout.
TEST_P(ShardedCheckpoint, TheFilesAreThoseOfOneDevice) {
  const ModelSpec model = small_model(GetParam());
  const Job job = small_job(model, DType::kF64, 12);
  Scratch scratch;
  const auto save = [&](const Split& split) {
    const std::string folder = scratch.path(text_of(split));
    const SmallRun run = train_small(model, job, strategy_of(split), options_in(folder, kBefore));
    return run.result.checkpoint;
  };
  const std::string one = save({1, 1, 1, 0});
  for (const Split& split : kSplits) {
    if (split.dp * split.tp * split.pp == 1) continue;
    SCOPED_TRACE(text_of(split));
    const std::string other = save(split);
    for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
      const SafetensorsFile expected(one + "/" + name);
      const SafetensorsFile found(other + "/" + name);
      EXPECT_EQ(found.names(), expected.names());
      for (const std::string& tensor : expected.names()) {
        ASSERT_EQ(found.find(tensor)->shape, expected.find(tensor)->shape) << tensor;
        const std::vector<std::byte> a = found.read(tensor);
        const std::vector<std::byte> b = expected.read(tensor);
        for (size_t i = 0; i < a.size(); i += 8) {
          double x = 0;
          double y = 0;
          std::memcpy(&x, a.data() + i, 8);
          std::memcpy(&y, b.data() + i, 8);
          // AdamW divides by |gradient| + 1e-8: where a gradient is zero but for its rounding
          // (keys' biases), a weight moves by the rounding over that.
          ASSERT_NEAR(x, y, 1e-8) << tensor << " element " << i / 8;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ShardedCheckpoint, ::testing::Values("gpt2", "llama"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace plimsoll
