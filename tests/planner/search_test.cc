// The search: what it prunes it may prune, and what does not fit is explained.
#include "planner/search.h"

#include "base/error.h"
#include "tests/planner/random_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace plimsoll {
namespace {

Job job_of(int64_t batch, int64_t seq) {
  Job job;
  job.global_batch = batch;
  job.seq = seq;
  return job;
}

TEST(Search, PruningAgreesWithTheExhaustiveSearchAtEveryLimit) {
  ModelSpec model = load_model("gpt2-tiny");
  model.layers = 5;
  const Cluster cluster = parse_cluster("2xcpu");
  const Job job = job_of(8, 32);
  const SearchResult all =
      search(model, cluster, job, {}, int64_t{1} << 40, SearchObjective::kTime, true);
  std::vector<int64_t> peaks = {all.best->predicted.peak_bytes, all.smallest.predicted.peak_bytes};
  for (const Candidate& other : all.alternatives) peaks.push_back(other.predicted.peak_bytes);
  for (const int64_t peak : peaks) {
    for (const int64_t limit : {peak - 1, peak, peak + 100000}) {
      const auto one = search(model, cluster, job, {}, limit, SearchObjective::kTime, false);
      const auto other = search(model, cluster, job, {}, limit, SearchObjective::kTime, true);
      ASSERT_EQ(one.best.has_value(), other.best.has_value()) << limit;
      if (one.best) {
        EXPECT_EQ(one.best->strategy, other.best->strategy) << limit;
      }
      EXPECT_LT(one.counts.evaluated, other.counts.evaluated);
      EXPECT_EQ(other.counts.pruned, 0);
      EXPECT_EQ(one.counts.covered, other.counts.covered);
    }
  }
}

// The bound behind the pruning: one more layer recomputed costs time and, after the first, saves
// memory or leaves it.
RC_GTEST_PROP(Search, RecomputingMoreNeedsNoMoreMemoryAndMoreTime, ()) {
  const int64_t layers = *rc::gen::inRange(1, 7);
  const ModelSpec model = testing::random_transformer(
      *rc::gen::element<std::string>("gpt2-tiny", "llama-tiny"), layers, *rc::gen::inRange(1, 4),
      2 * *rc::gen::inRange(1, 9), *rc::gen::inRange(3, 70));
  const Cluster cluster = parse_cluster("1xcpu");
  const Job job = job_of(4, *rc::gen::inRange(1, 33));
  Strategy strategy;
  strategy.micro_batch = *rc::gen::element(1, 2, 4);
  Prediction before;
  for (int64_t k = 0; k <= layers; ++k) {
    strategy.recompute.assign(static_cast<size_t>(layers), Recompute::kNone);
    std::fill_n(strategy.recompute.begin(), k, Recompute::kFull);
    const Prediction now = predict(lower_plan(model, cluster, job, strategy), cluster, job);
    RC_ASSERT(k == 0 || now.step_seconds > before.step_seconds);
    RC_ASSERT(k <= 1 || now.live_peak_bytes <= before.live_peak_bytes);
    before = now;
  }
}

TEST(Search, PruningAgreesOverTensorAndPipelineSplits) {
  ModelSpec model = load_model("gpt2-tiny");
  model.layers = 4;
  const Cluster cluster = parse_cluster("4xa100-40gb");
  Job job = job_of(8, 32);
  set_precision(job, "bf16");
  const SearchResult all =
      search(model, cluster, job, {}, int64_t{1} << 40, SearchObjective::kTime, true);
  const int64_t least = all.smallest.predicted.peak_bytes;
  for (const int64_t extra : {int64_t{0}, int64_t{20000}, int64_t{200000}, int64_t{900000}}) {
    const auto one = search(model, cluster, job, {}, least + extra, SearchObjective::kTime, false);
    const auto other = search(model, cluster, job, {}, least + extra, SearchObjective::kTime, true);
    ASSERT_TRUE(one.best && other.best) << extra;
    EXPECT_EQ(one.best->predicted.step_seconds, other.best->predicted.step_seconds)
        << extra << ": " << one.best->strategy.text(job) << " / " << other.best->strategy.text(job);
    EXPECT_LE(one.best->predicted.peak_bytes, least + extra);
    EXPECT_EQ(other.counts.covered, one.counts.covered);
  }
}

TEST(Search, LimitAtThePeakFitsAndOneByteLessChoosesAnother) {
  const ModelSpec model = load_model("gpt2-tiny");
  const Cluster cluster = parse_cluster("2xcpu");
  const auto free =
      search(model, cluster, job_of(8, 32), {}, int64_t{1} << 40, SearchObjective::kTime);
  const int64_t peak = free.best->predicted.peak_bytes;
  const auto same = search(model, cluster, job_of(8, 32), {}, peak, SearchObjective::kTime);
  EXPECT_EQ(same.best->strategy, free.best->strategy);
  const auto less = search(model, cluster, job_of(8, 32), {}, peak - 1, SearchObjective::kTime);
  EXPECT_LT(less.best->predicted.peak_bytes, peak);
}

TEST(Search, NothingFitsNamesTheSmallest) {
  const auto result = search(load_model("gpt2-tiny"), parse_cluster("1xcpu"), job_of(4, 32), {},
                             1000, SearchObjective::kTime);
  EXPECT_FALSE(result.best.has_value());
  EXPECT_GT(result.smallest.predicted.peak_bytes, 1000);
  EXPECT_FALSE(result.smallest.predicted.peak_instruction.empty());
}

TEST(Search, MemoryObjectiveFindsTheLeastPeak) {
  const ModelSpec model = load_model("gpt2-tiny");
  const Cluster cluster = parse_cluster("1xcpu");
  const auto found =
      search(model, cluster, job_of(8, 32), {}, int64_t{1} << 40, SearchObjective::kMemory, true);
  EXPECT_EQ(found.best->predicted.peak_bytes, found.smallest.predicted.peak_bytes);
}

// 17 tokens of an image cannot be divided over two ranks; nobody asked for it.
TEST(Search, SequencesThatDoNotDivideStayWhole) {
  const ModelSpec model = load_model("vit-tiny");
  Pins pins;
  pins.tp = 2;
  const auto result = search(model, parse_cluster("2xcpu"), job_of(8, 0), pins, int64_t{1} << 40,
                             SearchObjective::kTime);
  ASSERT_TRUE(result.best);
  EXPECT_FALSE(result.best->strategy.sequence_parallel);
  EXPECT_THAT(result.best->strategy.text(job_of(8, 0)), ::testing::StartsWith("tp 2 · dp 1"));
}

TEST(Search, PinsThatContradictAreNamed) {
  const ModelSpec model = load_model("gpt2-tiny");
  const auto message = [&](const Pins& pins, int64_t batch) {
    try {
      (void)search(model, parse_cluster("2xcpu"), job_of(batch, 32), pins, int64_t{1} << 40,
                   SearchObjective::kTime);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  Pins pins;
  pins.dp = 4;
  EXPECT_THAT(message(pins, 8), ::testing::HasSubstr("4 ranks"));
  EXPECT_THAT(message({}, 3), ::testing::HasSubstr("cannot be split"));
  pins = {};
  pins.micro_batch = 3;
  EXPECT_THAT(message(pins, 8), ::testing::HasSubstr("not a multiple"));
  pins = {};
  pins.cp = 2;
  EXPECT_THAT(message(pins, 8), ::testing::HasSubstr("--cp 2"));
  pins = {};
  pins.tp = 0;
  EXPECT_THAT(message(pins, 8), ::testing::HasSubstr("not positive"));
  pins.tp = 3;
  EXPECT_THAT(message(pins, 8), ::testing::HasSubstr("3 ranks"));
}

}  // namespace
}  // namespace plimsoll
