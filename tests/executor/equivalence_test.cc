// One loss, any plan: strategies of every kind, alone and combined, against one device.
//
// In double precision, where a rounding error is 1e-16 of a term and a mistake is not: an element
// that is summed twice, a missing rank or a wrong draw of dropout changes the loss in its first
// digits. The losses are compared as floats, so they must agree to one float's rounding, 2^-24; the
// gradient norms to 1e-9, which is the rounding of sums of some thousand terms, carried through the
// steps of AdamW, with room. What changes no order of sums is compared bit for bit, in single
// precision.
#include "tests/executor/equivalence.h"

#include <rapidcheck/gtest.h>

#include <cmath>
#include <map>

namespace plimsoll {
namespace {

using test::on_one_device;
using test::small_job;
using test::small_model;
using test::small_options;
using test::SmallRun;
using test::train_small;

struct Split {
  int dp = 1, tp = 1, pp = 1, zero = 0;
  bool prefetch = false, sequence = false;
  int64_t micro_batch = 1;
  const char* schedule = "1f1b";
  int interleave = 1;
  std::vector<int> bounds = {};
  std::vector<Recompute> recompute = {};
  int64_t chunks = 1;
};

constexpr Recompute kNo = Recompute::kNone, kAll = Recompute::kFull, kCore = Recompute::kSelective;

Strategy strategy_of(const ModelSpec& model, const Split& split) {
  Strategy s;
  s.dp = split.dp;
  s.tp = split.tp;
  s.pp = split.pp;
  s.zero = split.zero;
  s.zero_prefetch = split.prefetch;
  s.sequence_parallel = split.sequence;
  s.micro_batch = split.micro_batch;
  s.schedule = split.schedule;
  s.interleave = split.interleave;
  s.stage_bounds = split.bounds;
  s.loss_chunks = split.chunks;
  s.recompute = split.recompute;
  s.recompute.resize(static_cast<size_t>(model.layers), kNo);
  return s;
}

constexpr int64_t kSteps = 5;

SmallRun in_double(const ModelSpec& model, const Strategy& strategy, int64_t global_batch) {
  return train_small(model, small_job(model, DType::kF64, global_batch), strategy,
                     small_options(kSteps));
}

void expect_close(const SmallRun& run, const SmallRun& one) {
  ASSERT_EQ(run.losses.size(), one.losses.size());
  for (size_t i = 0; i < one.losses.size(); ++i) {
    EXPECT_NEAR(run.losses[i], one.losses[i], std::ldexp(one.losses[i], -23)) << "step " << i;
    EXPECT_NEAR(run.norms[i], one.norms[i], 1e-9 * one.norms[i]) << "step " << i;
  }
  ASSERT_TRUE(run.result.validation_loss && one.result.validation_loss);
  EXPECT_NEAR(*run.result.validation_loss, *one.result.validation_loss,
              std::ldexp(*one.result.validation_loss, -23));
  EXPECT_EQ(run.result.validation_accuracy, one.result.validation_accuracy);
}

void expect_all_close(const ModelSpec& model, const std::vector<Split>& splits,
                      int64_t global_batch = 8) {
  std::map<std::pair<int64_t, int64_t>, SmallRun> references;
  for (const Split& split : splits) {
    const Strategy strategy = strategy_of(model, split);
    SCOPED_TRACE(model.name + ": " + strategy.text(small_job(model, DType::kF64, global_batch)));
    auto& one = references[{split.micro_batch, split.chunks}];
    if (one.losses.empty()) one = in_double(model, on_one_device(strategy), global_batch);
    expect_close(in_double(model, strategy, global_batch), one);
  }
}

std::vector<Split> transformer_splits() {
  return {
      {.dp = 2, .micro_batch = 4},
      {.dp = 4, .micro_batch = 1},
      {.dp = 2, .micro_batch = 2, .recompute = {kAll, kCore}},
      {.dp = 2, .zero = 1, .micro_batch = 4},
      {.dp = 4, .zero = 1, .micro_batch = 1},
      {.dp = 4, .zero = 2, .micro_batch = 2},
      {.dp = 4, .zero = 2, .prefetch = true, .micro_batch = 1},
      {.dp = 2, .zero = 3, .micro_batch = 4},
      {.dp = 4, .zero = 3, .micro_batch = 1},
      {.dp = 8, .zero = 3, .prefetch = true, .micro_batch = 1, .recompute = {kAll, kAll}},
      {.tp = 2, .micro_batch = 8},
      {.tp = 4, .micro_batch = 2},
      {.tp = 2, .micro_batch = 4, .chunks = 3},
      {.tp = 4, .micro_batch = 4, .recompute = {kAll, kCore, kAll}, .chunks = 3},
      {.tp = 2, .sequence = true, .micro_batch = 8},
      {.tp = 4, .sequence = true, .micro_batch = 2, .recompute = {kAll}},
      {.tp = 2, .sequence = true, .micro_batch = 2, .chunks = 3},
      {.pp = 2, .micro_batch = 2},
      {.pp = 4, .micro_batch = 1},
      {.pp = 3, .micro_batch = 2, .bounds = {0, 2, 3, 4}},
      {.pp = 4, .micro_batch = 1, .schedule = "gpipe", .recompute = {kAll, kNo, kAll}},
      {.pp = 2, .micro_batch = 8, .schedule = "gpipe"},
      {.dp = 2, .tp = 2, .micro_batch = 2},
      {.dp = 2, .tp = 4, .zero = 1, .micro_batch = 2},
      {.dp = 2, .tp = 2, .zero = 2, .sequence = true, .micro_batch = 2},
      {.dp = 2, .tp = 4, .zero = 3, .prefetch = true, .micro_batch = 2},
      {.dp = 2, .pp = 2, .micro_batch = 2},
      {.dp = 2, .pp = 4, .zero = 1, .micro_batch = 1},
      {.dp = 2, .pp = 2, .zero = 2, .micro_batch = 1},
      {.dp = 4, .pp = 2, .zero = 3, .micro_batch = 1},
      {.tp = 2, .pp = 2, .micro_batch = 2},
      {.tp = 4, .pp = 2, .sequence = true, .micro_batch = 1, .recompute = {kAll, kAll, kAll, kAll}},
      {.dp = 2, .tp = 2, .pp = 2, .zero = 1, .micro_batch = 1},
      {.dp = 2, .tp = 2, .pp = 2, .zero = 3, .sequence = true, .micro_batch = 2},
      {.dp = 2, .tp = 2, .pp = 4, .zero = 1, .micro_batch = 1, .schedule = "gpipe"},
      {.dp = 4, .tp = 2, .pp = 2, .zero = 2, .micro_batch = 1},
      {.dp = 2,
       .tp = 4,
       .pp = 2,
       .zero = 1,
       .sequence = true,
       .micro_batch = 2,
       .recompute = {kCore, kAll}},
  };
}

// Several chunks of the model on a stage, on 4 layers.
std::vector<Split> interleaved_splits() {
  return {
      {.pp = 2, .micro_batch = 1, .schedule = "interleaved", .interleave = 2},
      {.pp = 2, .micro_batch = 2, .schedule = "interleaved", .interleave = 2},
      {.pp = 2, .micro_batch = 4, .schedule = "interleaved", .interleave = 2},
      {.pp = 2,
       .micro_batch = 1,
       .schedule = "interleaved",
       .interleave = 2,
       .recompute = {kAll, kCore, kNo, kAll},
       .chunks = 3},
      {.dp = 2, .pp = 2, .micro_batch = 1, .schedule = "interleaved", .interleave = 2},
      {.dp = 2, .pp = 2, .zero = 1, .micro_batch = 1, .schedule = "interleaved", .interleave = 2},
      {.dp = 2, .pp = 2, .zero = 2, .micro_batch = 2, .schedule = "interleaved", .interleave = 2},
      {.dp = 2,
       .pp = 2,
       .zero = 2,
       .prefetch = true,
       .micro_batch = 1,
       .schedule = "interleaved",
       .interleave = 2,
       .recompute = {kAll}},
      {.dp = 2, .pp = 2, .zero = 3, .micro_batch = 1, .schedule = "interleaved", .interleave = 2},
      {.dp = 2,
       .pp = 2,
       .zero = 3,
       .prefetch = true,
       .micro_batch = 2,
       .schedule = "interleaved",
       .interleave = 2,
       .recompute = {kAll, kNo, kAll, kCore}},
      {.tp = 2, .pp = 2, .micro_batch = 2, .schedule = "interleaved", .interleave = 2},
      {.dp = 2,
       .tp = 2,
       .pp = 2,
       .zero = 1,
       .sequence = true,
       .micro_batch = 1,
       .schedule = "interleaved",
       .interleave = 2,
       .recompute = {kCore, kAll}},
  };
}

// The backward in two parts, on 4 layers.
std::vector<Split> zero_bubble_splits() {
  return {
      {.pp = 2, .micro_batch = 1, .schedule = "zb-h1"},
      {.pp = 4, .micro_batch = 1, .schedule = "zb-h1"},
      {.pp = 4, .micro_batch = 4, .schedule = "zb-h1"},
      {.pp = 3, .micro_batch = 2, .schedule = "zb-h1", .bounds = {0, 1, 3, 4}, .chunks = 3},
      {.pp = 3, .micro_batch = 1, .schedule = "zb-h1", .recompute = {kAll, kCore, kNo, kAll}},
      {.dp = 2, .pp = 2, .zero = 1, .micro_batch = 1, .schedule = "zb-h1"},
      {.dp = 2, .pp = 4, .zero = 2, .micro_batch = 1, .schedule = "zb-h1"},
      {.dp = 2, .pp = 2, .zero = 2, .prefetch = true, .micro_batch = 2, .schedule = "zb-h1"},
      {.dp = 2,
       .pp = 3,
       .zero = 3,
       .prefetch = true,
       .micro_batch = 1,
       .schedule = "zb-h1",
       .recompute = {kNo, kAll, kAll}},
      {.tp = 2, .pp = 2, .micro_batch = 2, .schedule = "zb-h1"},
      {.dp = 2,
       .tp = 2,
       .pp = 2,
       .zero = 3,
       .sequence = true,
       .micro_batch = 1,
       .schedule = "zb-h1",
       .recompute = {kAll}},
  };
}

// On 6 layers.
std::vector<Split> deep_splits() {
  return {
      {.pp = 2, .micro_batch = 1, .schedule = "interleaved", .interleave = 3},
      {.pp = 2,
       .micro_batch = 1,
       .schedule = "interleaved",
       .interleave = 2,
       .bounds = {0, 1, 4, 5, 6}},
      {.dp = 2, .pp = 3, .micro_batch = 1, .schedule = "interleaved", .interleave = 2},
  };
}

TEST(Equivalence, Gpt2) { expect_all_close(small_model("gpt2"), transformer_splits()); }
TEST(Equivalence, Llama) { expect_all_close(small_model("llama"), transformer_splits()); }

TEST(Equivalence, ChunksInTurn) {
  for (const char* family : {"gpt2", "llama"}) {
    expect_all_close(small_model(family), interleaved_splits());
    expect_all_close(small_model(family, 6), deep_splits(), 12);
  }
}

TEST(Equivalence, BackwardInTwoParts) {
  for (const char* family : {"gpt2", "llama"}) {
    expect_all_close(small_model(family), zero_bubble_splits());
  }
}

TEST(Equivalence, MlpAndResNet) {
  const std::vector<Split> splits = {
      {.dp = 2, .micro_batch = 2},
      {.dp = 4, .micro_batch = 2},
      {.dp = 2, .zero = 1, .micro_batch = 2},
      {.dp = 4, .zero = 2, .micro_batch = 1},
      {.dp = 2, .zero = 2, .prefetch = true, .micro_batch = 2},
      {.dp = 4, .zero = 3, .micro_batch = 2},
      {.dp = 2, .zero = 3, .prefetch = true, .micro_batch = 2},
  };
  expect_all_close(small_model("mlp"), splits);
  expect_all_close(small_model("resnet"), splits);
}

// Parts of one layer or more.
void random_bounds(Strategy& s, int layers) {
  const int parts = s.pp * s.interleave;
  s.stage_bounds = {0};
  for (int part = 1; part < parts; ++part) {
    s.stage_bounds.push_back(
        *rc::gen::inRange(s.stage_bounds.back() + 1, layers - (parts - part) + 1));
  }
  s.stage_bounds.push_back(layers);
}

// Beyond the list: any split of any small transformer.
RC_GTEST_PROP(Equivalence, AnySplit, ()) {
  const int64_t layers = *rc::gen::inRange(1, 6);
  const ModelSpec model =
      testing::random_transformer(*rc::gen::element<std::string>("gpt2-tiny", "llama-tiny"), layers,
                                  4, 2 * *rc::gen::inRange(1, 4), *rc::gen::inRange(20, 80));
  Strategy s;
  s.tp = *rc::gen::element(1, 1, 2, 4);
  s.pp = *rc::gen::inRange<int>(1, static_cast<int>(std::min<int64_t>(layers, 3)) + 1);
  s.dp = *rc::gen::inRange(1, std::max(2, 16 / s.tp / s.pp + 1));
  s.sequence_parallel = s.tp > 1 && *rc::gen::arbitrary<bool>();
  const int most_chunks = static_cast<int>(layers) / s.pp;
  if (s.pp > 1 && most_chunks > 1 && *rc::gen::arbitrary<bool>()) {
    s.schedule = "interleaved";
    s.interleave = *rc::gen::inRange(2, most_chunks + 1);
    random_bounds(s, static_cast<int>(layers));
  } else {
    s.schedule = *rc::gen::element<std::string>("1f1b", "gpipe", "zb-h1");
  }
  s.zero = s.dp == 1 ? 0 : *rc::gen::inRange(0, 4);
  s.zero_prefetch = s.zero >= 2 && *rc::gen::arbitrary<bool>();
  s.attention = *rc::gen::element<std::string>("flash", "naive");
  s.micro_batch = *rc::gen::inRange(1, 3);
  for (int64_t i = 0; i < layers; ++i) {
    s.recompute.push_back(*rc::gen::element(kNo, kCore, kAll));
  }
  const int round = s.interleave > 1 ? s.pp : 1;
  Job job = small_job(model, DType::kF64, s.dp * s.micro_batch * round * *rc::gen::inRange(1, 5));
  job.seq = 4 * *rc::gen::inRange(1, 4);
  s.loss_chunks = *rc::gen::inRange<int64_t>(1, 4);
  job.optimizer = *rc::gen::element(Optimizer::kAdamW, Optimizer::kAdam, Optimizer::kSgd);
  const SmallRun split = train_small(model, job, s, small_options(2));
  const SmallRun one = train_small(model, job, on_one_device(s), small_options(2));
  RC_LOG() << s.text(job) << " tp " << s.tp << " pp " << s.pp << " " << s.schedule << "\n";
  for (size_t i = 0; i < one.losses.size(); ++i) {
    RC_ASSERT(std::abs(split.losses[i] - one.losses[i]) <= std::ldexp(one.losses[i], -23));
    RC_ASSERT(std::abs(split.norms[i] - one.norms[i]) <= 1e-9 * one.norms[i]);
  }
  for (const RankReport& rank : split.result.ranks) {
    RC_ASSERT(rank.measured_arena_bytes == rank.predicted_arena_bytes);
  }
}

// Pipeline and recompute change no sum: the same bits as without them.
TEST(Equivalence, PipelineAndRecomputeAreBitwise) {
  for (const char* family : {"gpt2", "llama"}) {
    const ModelSpec model = small_model(family);
    const Job job = small_job(model, DType::kF32);
    std::vector<Split> splits = transformer_splits();
    for (const Split& split : interleaved_splits()) splits.push_back(split);
    for (const Split& split : zero_bubble_splits()) splits.push_back(split);
    for (const Split& split : splits) {
      const Strategy strategy = strategy_of(model, split);
      Strategy plain = strategy;
      plain.pp = plain.interleave = 1;
      plain.schedule = "1f1b";
      plain.stage_bounds.clear();
      plain.recompute.assign(plain.recompute.size(), kNo);
      if (split.zero > 1 || plain == strategy) continue;
      SCOPED_TRACE(fmt::format("{}: {}", family, strategy.text(job)));
      const SmallRun split_run = train_small(model, job, strategy, small_options(kSteps));
      const SmallRun plain_run = train_small(model, job, plain, small_options(kSteps));
      EXPECT_EQ(split_run.losses, plain_run.losses);
      EXPECT_EQ(split_run.result.validation_loss, plain_run.result.validation_loss);
    }
  }
}

}  // namespace
}  // namespace plimsoll
