// The advice is true: what it says of a change is what lowering and the search say of it.
#include "planner/advisor.h"

#include "base/error.h"
#include "tests/planner/random_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

namespace plimsoll {
namespace {

AdviceRequest request_of(const std::string& model, const std::string& cluster, int64_t batch) {
  AdviceRequest r;
  r.model = load_model(model);
  r.cluster = parse_cluster(cluster);
  r.job.global_batch = batch;
  r.job.seq = r.model.training_length > 0 ? 32 : 0;
  r.memory_limit_bytes = int64_t{1} << 40;
  return r;
}

Prediction lowered(const ModelSpec& model, const Configuration& c) {
  return predict(lower_plan(model, c.cluster, c.job, c.strategy), c.cluster, c.job);
}

// The option's figures are those of its configuration, lowered anew.
void expect_true(const AdviceRequest& r, const Advice& advice, const Option& o) {
  const Configuration& c = o.evaluated.configuration;
  const Prediction p = lowered(r.model, c);
  EXPECT_EQ(p.peak_bytes, o.evaluated.predicted.peak_bytes) << o.text;
  EXPECT_EQ(p.step_seconds, o.evaluated.predicted.step_seconds) << o.text;
  EXPECT_EQ(o.saved_bytes, advice.explained.predicted.peak_bytes - p.peak_bytes) << o.text;
}

// With the option's pins the search comes to the same strategy, bytes and time.
void expect_found_by_search(const AdviceRequest& r, const Option& o) {
  if (!o.searchable) return;
  const Configuration& c = o.evaluated.configuration;
  const SearchResult found =
      search(r.model, c.cluster, c.job, o.pins, r.memory_limit_bytes, SearchObjective::kTime);
  ASSERT_TRUE(found.best.has_value()) << o.text;
  EXPECT_EQ(found.best->strategy, c.strategy) << o.text;
  EXPECT_EQ(found.best->predicted.peak_bytes, o.evaluated.predicted.peak_bytes) << o.text;
  EXPECT_EQ(found.best->predicted.step_seconds, o.evaluated.predicted.step_seconds) << o.text;
}

void expect_all_true(const AdviceRequest& r, const Advice& advice) {
  for (const Option& o : advice.changes) {
    EXPECT_TRUE(o.fits && o.searchable) << o.text;
    EXPECT_GE(o.keys.size(), 1U);
    EXPECT_LE(o.keys.size(), 2U);
    expect_true(r, advice, o);
    expect_found_by_search(r, o);
  }
  for (const LadderStep& step : advice.ladder) {
    if (step.end) expect_true(r, advice, *step.end);
    if (step.first_fit) {
      EXPECT_TRUE(step.first_fit->fits);
      expect_found_by_search(r, *step.first_fit);
    }
  }
  for (const Option& o : advice.alternatives) {
    EXPECT_TRUE(o.fits) << o.text;
    expect_true(r, advice, o);
  }
  for (const Rejected& one : advice.rejected) {
    EXPECT_GT(one.over_bytes, 0);
    EXPECT_EQ(lowered(r.model, one.evaluated.configuration).peak_bytes,
              r.memory_limit_bytes + one.over_bytes);
  }
  EXPECT_TRUE(std::is_sorted(advice.changes.begin(), advice.changes.end(),
                             [](const Option& a, const Option& b) { return a.price < b.price; }));
}

void expect_adds_up(const Advice& advice) {
  int64_t sum = advice.anatomy.packing_bytes + advice.anatomy.outside_bytes;
  CategoryBytes by_category{};
  for (const BufferGroup& group : advice.anatomy.groups) {
    sum += group.bytes;
    by_category[static_cast<size_t>(group.category)] += group.bytes;
  }
  EXPECT_EQ(sum, advice.explained.predicted.peak_bytes);
  EXPECT_EQ(by_category, advice.explained.predicted.by_category);
  const CategoryBytes all = peak_by_category(advice.explained.predicted);
  EXPECT_EQ(std::accumulate(all.begin(), all.end(), int64_t{0}),
            advice.explained.predicted.peak_bytes);
}

TEST(Advisor, ChangesOfAPinnedConfigurationAreTrueAndLeast) {
  AdviceRequest r = request_of("gpt2-tiny", "1xcpu", 8);
  r.model.layers = 4;
  r.pins.micro_batch = 8;
  r.pins.recompute = Recompute::kNone;
  r.pins.loss_chunks = 1;
  const Advice free = advise(r);
  ASSERT_TRUE(free.fits);
  const int64_t peak = free.explained.predicted.peak_bytes;
  const int64_t least = free.together->evaluated.predicted.peak_bytes;
  bool pair = false;
  for (int part = 1; part <= 9; part += 2) {
    r.memory_limit_bytes = least + (peak - least) * part / 10;
    const Advice advice = advise(r);
    ASSERT_FALSE(advice.fits);
    EXPECT_FALSE(advice.changes.empty()) << part;
    expect_all_true(r, advice);
    expect_adds_up(advice);
    for (const Option& o : advice.changes) pair = pair || o.keys.size() == 2;
  }
  EXPECT_TRUE(pair);
}

const LadderStep& step_of(const Advice& advice, std::string_view key) {
  const auto at = std::find_if(advice.ladder.begin(), advice.ladder.end(),
                               [&](const LadderStep& s) { return s.dimension->key == key; });
  if (at == advice.ladder.end()) throw std::runtime_error("no such step");
  return *at;
}

TEST(Advisor, LeastRecomputeIsTheSmallestNumberOfLayers) {
  AdviceRequest r = request_of("gpt2-tiny", "1xcpu", 4);
  r.model.layers = 6;
  r.pins.micro_batch = 4;
  r.pins.recompute = Recompute::kNone;
  r.pins.loss_chunks = 1;
  const Advice free = advise(r);
  const int64_t least = step_of(free, "recompute").end->evaluated.predicted.peak_bytes;
  r.memory_limit_bytes = (free.explained.predicted.peak_bytes + least) / 2;
  const Advice advice = advise(r);
  const Option& fit = *step_of(advice, "recompute").first_fit;
  const int count = fit.evaluated.configuration.strategy.num_recomputed();
  ASSERT_GT(count, 0);
  ASSERT_LT(count, 6);
  EXPECT_EQ(fit.flags.drop, std::vector<std::string>{"--recompute"});
  Configuration fewer = fit.evaluated.configuration;
  fewer.strategy.recompute[static_cast<size_t>(count - 1)] = Recompute::kNone;
  EXPECT_GT(lowered(r.model, fewer).peak_bytes, r.memory_limit_bytes);
}

TEST(Advisor, LargestMicroBatchFitsAndTheNextDoesNot) {
  AdviceRequest r = request_of("gpt2-tiny", "2xcpu", 24);
  r.pins.recompute = Recompute::kNone;
  const Advice free = advise(r);
  r.memory_limit_bytes = free.micro_batch->configured.at->evaluated.predicted.peak_bytes * 3 / 4;
  const Advice advice = advise(r);
  for (const Largest* largest : {&advice.micro_batch->configured, &advice.micro_batch->open}) {
    ASSERT_GT(largest->value, 0);
    ASSERT_TRUE(largest->limited_by_memory);
    EXPECT_TRUE(largest->monotone);
    expect_true(r, advice, *largest->at);
    EXPECT_LE(largest->at->evaluated.predicted.peak_bytes, r.memory_limit_bytes);
    EXPECT_GT(largest->next_peak_bytes, r.memory_limit_bytes);
    EXPECT_EQ(12 % largest->next_value, 0);
    for (const int64_t size : divisors(12)) {
      EXPECT_FALSE(size > largest->value && size < largest->next_value);
    }
  }
  // The search agrees on what the pins leave open.
  Pins pins = r.pins;
  for (const int64_t size : divisors(12)) {
    pins.micro_batch = size;
    const bool fits =
        search(r.model, r.cluster, r.job, pins, r.memory_limit_bytes, SearchObjective::kTime)
            .best.has_value();
    EXPECT_EQ(fits, size <= advice.micro_batch->open.value) << size;
  }
}

TEST(Advisor, LargestSequenceFitsAndOneTokenMoreDoesNot) {
  AdviceRequest r = request_of("llama-tiny", "1xcpu", 4);
  r.pins.micro_batch = 4;
  r.memory_limit_bytes = 20'000'000;
  const Advice advice = advise(r);
  const Largest& longest = advice.seq->configured;
  ASSERT_GT(longest.value, 0);
  ASSERT_TRUE(longest.limited_by_memory);
  EXPECT_EQ(longest.next_value, longest.value + 1);
  Configuration c = advice.explained.configuration;
  c.job.seq = longest.value;
  EXPECT_LE(lowered(r.model, c).peak_bytes, r.memory_limit_bytes);
  c.job.seq = longest.value + 1;
  EXPECT_GT(lowered(r.model, c).peak_bytes, r.memory_limit_bytes);
  EXPECT_GE(advice.seq->open.value, longest.value);
}

TEST(Advisor, PositionsLimitTheSequence) {
  const AdviceRequest r = request_of("gpt2-tiny", "1xcpu", 2);
  const Advice advice = advise(r);
  EXPECT_EQ(advice.seq->configured.value, r.model.max_positions);
  EXPECT_FALSE(advice.seq->configured.limited_by_memory);
  EXPECT_FALSE(advice.seq->configured.reason.empty());
}

TEST(Advisor, StatesThatDoNotFitNeedSharding) {
  AdviceRequest r = request_of("gpt2-tiny", "2xcpu", 4);
  const Advice free = advise(r);
  r.memory_limit_bytes = free.devices.floor_bytes / 3 - 1;
  const Advice advice = advise(r);
  EXPECT_TRUE(advice.devices.states_exceed);
  EXPECT_EQ(advice.devices.least_if_sharded, 4);
  EXPECT_FALSE(advice.devices.configured.has_value());
  EXPECT_TRUE(advice.alternatives.empty());
}

TEST(Advisor, FewestDevicesFitAndFewerDoNot) {
  AdviceRequest r = request_of("gpt2-tiny", "1xcpu", 8);
  r.pins.micro_batch = 8;
  r.pins.recompute = Recompute::kNone;
  r.pins.loss_chunks = 1;
  const Advice free = advise(r);
  r.memory_limit_bytes = free.explained.predicted.peak_bytes * 3 / 4;
  const Advice advice = advise(r);
  ASSERT_TRUE(advice.devices.configured.has_value());
  const Option& fewest = *advice.devices.configured;
  expect_true(r, advice, fewest);
  const Configuration& c = fewest.evaluated.configuration;
  EXPECT_TRUE(fewest.fits);
  EXPECT_GT(c.strategy.dp, 1);
  EXPECT_EQ(c.cluster, parse_cluster(c.cluster.text));
  EXPECT_EQ(c.cluster.num_devices(), c.strategy.dp);
  for (int ranks = 1; ranks < c.strategy.dp; ranks *= 2) {
    Configuration fewer = c;
    fewer.strategy.dp = ranks;
    fewer.strategy.micro_batch = 8 / ranks;
    fewer.cluster = parse_cluster(std::to_string(ranks) + "xcpu");
    EXPECT_GT(lowered(r.model, fewer).peak_bytes, r.memory_limit_bytes) << ranks;
  }
}

TEST(Advisor, SmallestDeviceHoldsIt) {
  AdviceRequest r = request_of("gpt2", "1xa100-80gb", 8);
  r.job.seq = 512;
  set_precision(r.job, "bf16");
  r.pins.micro_batch = 8;
  r.pins.recompute = Recompute::kNone;
  r.pins.loss_chunks = 1;
  const Advice advice = advise(r);
  ASSERT_TRUE(advice.hardware.configured.has_value());
  const Configuration& c = advice.hardware.configured->evaluated.configuration;
  EXPECT_LE(lowered(r.model, c).peak_bytes, c.cluster.device.memory_bytes());
  for (const Hardware& device : all_hardware()) {
    if (device.shares_cores || device.memory_bytes() >= c.cluster.device.memory_bytes()) continue;
    Configuration smaller = c;
    smaller.cluster.device = device;
    if (device.bf16_flops <= 0) continue;  // cannot compute in the job's type
    EXPECT_GT(lowered(r.model, smaller).peak_bytes, device.memory_bytes()) << device.id;
  }
}

TEST(Advisor, TricksInUseAreTold) {
  AdviceRequest r = request_of("gpt2-tiny", "1xcpu", 4);
  r.pins.attention = "naive";
  const Advice naive = advise(r);
  const LadderStep& flash = step_of(naive, "attention");
  ASSERT_TRUE(flash.end.has_value());
  EXPECT_EQ(flash.end->evaluated.configuration.strategy.attention, "flash");
  r.pins.attention.reset();
  EXPECT_FALSE(step_of(advise(r), "attention").end.has_value());
}

TEST(Advisor, SelectiveRecomputeIsAStepOfItsOwn) {
  AdviceRequest r = request_of("gpt2-tiny", "1xcpu", 8);
  r.model.layers = 6;
  r.job.seq = 64;
  r.pins.attention = "naive";
  r.pins.recompute = Recompute::kNone;
  r.pins.micro_batch = 8;
  r.pins.loss_chunks = 1;
  const Advice advice = advise(r);
  const Option& selective = *step_of(advice, "selective_recompute").end;
  EXPECT_GT(selective.saved_bytes, 0);
  EXPECT_EQ(selective.flags.add, std::vector<std::string>{"--recompute selective"});
  EXPECT_TRUE(selective.searchable);
  const SearchResult found =
      search(r.model, r.cluster, r.job, selective.pins, int64_t{1} << 40, SearchObjective::kTime);
  EXPECT_EQ(found.best->predicted.peak_bytes, selective.evaluated.predicted.peak_bytes);
  EXPECT_EQ(found.best->strategy.recompute_text(), "selective");
  r.pins.recompute = Recompute::kSelective;
  EXPECT_FALSE(step_of(advise(r), "selective_recompute").end.has_value());
}

TEST(Advisor, ContradictingPinsAreAnError) {
  AdviceRequest r = request_of("gpt2-tiny", "1xcpu", 8);
  r.pins.micro_batch = 3;
  EXPECT_THROW((void)advise(r), Error);
}

// Whatever the model, the pins and the limit: figures add up and are true, and a search with the
// advised pins comes to the same.
RC_GTEST_PROP(Advisor, AdviceIsTrue, ()) {
  const testing::RandomCase c = *testing::random_case();
  AdviceRequest r;
  r.model = c.model;
  r.job = c.job;
  r.cluster = parse_cluster(std::to_string(c.strategy.dp) + "xcpu");
  r.pins.micro_batch = c.strategy.micro_batch;
  r.pins.attention = c.strategy.attention;
  r.pins.loss_chunks = c.strategy.loss_chunks;
  if (*rc::gen::arbitrary<bool>()) r.pins.recompute = Recompute::kNone;
  Strategy plain = c.strategy;
  plain.recompute.assign(c.strategy.recompute.size(), Recompute::kNone);
  const int64_t peak = lowered(r.model, {r.cluster, r.job, plain}).peak_bytes;
  r.memory_limit_bytes = peak / 100 * *rc::gen::inRange(30, 110);
  const Advice advice = advise(r);
  expect_adds_up(advice);
  expect_all_true(r, advice);
  RC_ASSERT(!::testing::Test::HasFailure());
}

}  // namespace
}  // namespace plimsoll
