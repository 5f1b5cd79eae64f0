// ZeRO: every plan verifies, bytes are those of the paper with the shards' rounding, and what is
// sharded costs no more memory than what is whole.
#include "base/error.h"
#include "planner/lower/lower.h"
#include "planner/search.h"
#include "program/text.h"
#include "program/timeline.h"
#include "program/verify.h"
#include "tests/planner/random_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

namespace plimsoll {
namespace {

std::string first_violation(const StepProgram& program) {
  const std::vector<Violation> violations = verify(program);
  return violations.empty() ? "" : violations.front().rule + ": " + violations.front().message;
}

// A random case on 2 to 8 ranks; gradients or states in half the bytes now and then.
testing::RandomCase random_sharded(int zero) {
  testing::RandomCase c = *testing::random_case();
  const int64_t rounds = c.job.global_batch / (c.strategy.dp * c.strategy.micro_batch);
  c.strategy.dp = *rc::gen::inRange(2, 9);
  c.job.global_batch = rounds * c.strategy.dp * c.strategy.micro_batch;
  c.strategy.zero = zero;
  if (zero >= 2) c.strategy.zero_prefetch = *rc::gen::arbitrary<bool>();
  return c;
}

int64_t reserved(int64_t elements, int64_t element_bytes) {
  return align_up(elements * element_bytes, 256);
}

int64_t shard(int64_t elements, int64_t dp) { return (elements + dp - 1) / dp; }

// Elements of each trained tensor of the model, from the plan without ZeRO.
std::vector<int64_t> trained_sizes(testing::RandomCase c) {
  c.strategy.zero = 0;
  c.strategy.zero_prefetch = false;
  std::vector<int64_t> sizes;
  for (const Buffer& buffer : lower(c.model, c.job, c.strategy, {}).buffers) {
    if (buffer.logical && buffer.logical->role == "parameter") {
      sizes.push_back(num_elements(buffer.shape));
    }
  }
  return sizes;
}

int64_t num_moments(const Job& job) {
  return job.optimizer == Optimizer::kAdamW || job.optimizer == Optimizer::kAdam ? 2 : 1;
}

// Reserved bytes of persistent buffers that belong to trained tensors, by category.
std::map<Category, int64_t> persistent_bytes(const StepProgram& program) {
  std::map<Category, int64_t> bytes;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (!buffer.persistent || !buffer.logical || buffer.logical->role == "state") continue;
    bytes[buffer.category] += program.reserved_bytes(static_cast<int>(b));
  }
  return bytes;
}

// The most that a category ever takes in the step.
int64_t most(const StepProgram& program, Category category) {
  int64_t bytes = 0;
  for (const PhaseTimeline& phase : compute_timeline(program).phases) {
    if (phase.phase != "step") continue;
    for (const TimelinePoint& point : phase.points) {
      bytes = std::max(bytes, point.by_category[static_cast<size_t>(category)]);
    }
  }
  return bytes;
}

const Segment& micro_batches(const StepProgram& program) {
  for (const Segment& segment : program.find_phase("step")->segments) {
    if (segment.name == "micro-batches") return segment;
  }
  throw std::runtime_error("no segment");
}

RC_GTEST_PROP(Zero, AnyPlanVerifiesAndReadsBack, ()) {
  const testing::RandomCase c = random_sharded(*rc::gen::inRange(1, 4));
  const StepProgram program = lower(c.model, c.job, c.strategy, {});
  RC_ASSERT(first_violation(program) == "");
  RC_ASSERT(parse_text(to_text(program), "zero") == program);
  RC_ASSERT(first_violation(for_rank(program, c.strategy.dp - 1)) == "");
}

RC_GTEST_PROP(Zero, PersistentBytesAreTheClosedForm, ()) {
  const int zero = *rc::gen::inRange(0, 4);
  const testing::RandomCase c = random_sharded(zero);
  const std::map<Category, int64_t> bytes = persistent_bytes(lower(c.model, c.job, c.strategy, {}));
  int64_t parameters = 0;
  int64_t optimizer = 0;
  for (const int64_t n : trained_sizes(c)) {
    parameters += reserved(zero >= 3 ? shard(n, c.strategy.dp) : n, 4);
    optimizer += num_moments(c.job) * reserved(zero >= 1 ? shard(n, c.strategy.dp) : n, 4);
  }
  RC_ASSERT(bytes.at(Category::kParameters) == parameters);
  RC_ASSERT(bytes.at(Category::kOptimizer) == optimizer);
}

RC_GTEST_PROP(Zero, ShardingTheOptimizerNeverNeedsMore, ()) {
  testing::RandomCase c = random_sharded(1);
  const int64_t one = compute_timeline(lower(c.model, c.job, c.strategy, {})).live_peak_bytes();
  c.strategy.zero = 0;
  const int64_t none = compute_timeline(lower(c.model, c.job, c.strategy, {})).live_peak_bytes();
  RC_ASSERT(one <= none);
}

// Whole gradients live from their block's backward to its reduction: shards and the fullest block
// (two blocks where reduction runs beside the next backward) bound them.
RC_GTEST_PROP(Zero, GradientsAreShardsAndTheFullestBlock, ()) {
  const testing::RandomCase c = random_sharded(*rc::gen::inRange(2, 4));
  const StepProgram program = lower(c.model, c.job, c.strategy, {});
  const Segment& body = micro_batches(program);
  const auto dp = static_cast<int64_t>(c.strategy.dp);
  const auto is_gradient = [&](int b) {
    return b != kNoBuffer &&
           program.buffers[static_cast<size_t>(b)].category == Category::kGradients;
  };
  // Whole gradients by block: those that reductions follow one another on.
  std::vector<int64_t> blocks;
  std::set<int> scattered;
  bool reducing = false;
  for (const Instruction& instruction : body.body) {
    const bool is_reduce = instruction.pass == Pass::kReduce;
    if (is_reduce && !reducing) blocks.push_back(0);
    reducing = is_reduce;
    if (instruction.op != "reduce_scatter") continue;
    RC_ASSERT(instruction.stream == Stream::kDataParallel);
    RC_ASSERT(is_gradient(instruction.inputs[0]));
    RC_ASSERT(scattered.insert(instruction.inputs[0]).second);
    blocks.back() += program.reserved_bytes(instruction.inputs[0]);
  }
  int64_t kept = 0;
  for (const int64_t n : trained_sizes(c)) kept += reserved(shard(n, dp), 4);
  for (size_t b = 0; b < program.buffers.size(); ++b) {  // statistics of states are kept whole
    const Buffer& buffer = program.buffers[b];
    const bool is_state = buffer.logical && buffer.logical->role == "state";
    if (is_state) kept += program.reserved_bytes(static_cast<int>(b));
  }
  int64_t whole = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const bool two = c.strategy.zero_prefetch && i > 0;
    whole = std::max(whole, blocks[i] + (two ? blocks[i - 1] : 0));
  }
  const int64_t bytes = most(program, Category::kGradients);
  RC_ASSERT(bytes <= kept + whole);
  const bool accumulates_over_steps = accumulation_steps(c.strategy, c.job) > 1;
  if (accumulates_over_steps && !c.strategy.zero_prefetch) RC_ASSERT(bytes == kept + whole);
}

RC_GTEST_PROP(Zero, EachBlockGathersWhatItReadsAndNoMore, ()) {
  const testing::RandomCase c = random_sharded(3);
  const StepProgram program = lower(c.model, c.job, c.strategy, {});
  for (const Phase& phase : program.phases) {
    if (phase.name == "initialise") continue;
    for (const Segment& segment : phase.segments) {
      std::set<int> read;
      std::set<int> gathered;
      for (const Instruction& instruction : segment.body) {
        if (instruction.op == "all_gather") {
          RC_ASSERT(program.buffers[static_cast<size_t>(instruction.inputs[0])].persistent);
          RC_ASSERT(gathered.insert(instruction.outputs[0]).second);
          continue;
        }
        if (instruction.pass == Pass::kUpdate) continue;
        for (const int b : instruction.inputs) {
          if (b == kNoBuffer) continue;
          const Buffer& buffer = program.buffers[static_cast<size_t>(b)];
          if (buffer.category != Category::kParameters) continue;
          const bool is_state = buffer.logical && buffer.logical->role == "state";
          RC_ASSERT(is_state || !buffer.persistent);
          if (!is_state) read.insert(b);
        }
      }
      RC_ASSERT(read == gathered);
    }
  }
}

RC_GTEST_PROP(Zero, StagesOfAPipelineVerify, ()) {
  const int64_t layers = *rc::gen::inRange(2, 5);
  const ModelSpec model = testing::random_transformer(
      *rc::gen::element<std::string>("gpt2-tiny", "llama-tiny"), layers, *rc::gen::inRange(1, 4),
      2 * *rc::gen::inRange(1, 9), *rc::gen::inRange(3, 70));
  Strategy strategy;
  strategy.dp = *rc::gen::inRange(2, 5);
  strategy.pp = 2;
  strategy.schedule = *rc::gen::element<std::string>("1f1b", "gpipe");
  strategy.zero = *rc::gen::inRange(1, 4);
  strategy.zero_prefetch = strategy.zero >= 2 && *rc::gen::arbitrary<bool>();
  for (int64_t i = 0; i < layers; ++i) {
    strategy.recompute.push_back(
        *rc::gen::element(Recompute::kNone, Recompute::kSelective, Recompute::kFull));
  }
  Job job;
  job.global_batch = strategy.dp * *rc::gen::inRange(1, 5);
  job.seq = *rc::gen::inRange(1, 33);
  for (const StepProgram& program : lower_stages(model, job, strategy, {})) {
    RC_ASSERT(first_violation(program) == "");
    for (const Buffer& buffer : program.buffers) {
      // No gathered parameter outlives its block, so none is kept for several micro-batches.
      RC_ASSERT(buffer.category != Category::kParameters || buffer.copies == 1);
    }
  }
}

struct Bf16 {
  ModelSpec model = load_model("llama2-7b");
  Job job;
  Strategy strategy;
  Bf16() {
    model.layers = 4;
    job.global_batch = 16;
    job.seq = 128;
    set_precision(job, "bf16");
    strategy.dp = 8;
    strategy.recompute.assign(4, Recompute::kFull);
  }
  [[nodiscard]] StepProgram program(int zero, bool prefetch = false) {
    strategy.zero = zero;
    strategy.zero_prefetch = prefetch;
    return lower(model, job, strategy, {});
  }
};

// Rajbhandari et al. 2020, section 5, in 18 bytes a parameter (gradients in f32): 6 + 12 / N,
// 2 + 16 / N and 18 / N. The weights' and moments' part is persistent, the gradients' in the step.
TEST(Zero, BytesAParameterAreThePapers) {
  Bf16 c;
  const auto n = static_cast<double>(c.program(0).header.hyperparameters.get_int("parameters"));
  for (const int zero : {0, 1, 2, 3}) {
    const StepProgram program = c.program(zero);
    int64_t persistent = 0;
    for (const auto& [category, bytes] : persistent_bytes(program)) persistent += bytes;
    const double parameters = zero == 3 ? 2.0 / 8 : 2.0;
    const double states = zero >= 1 ? 12.0 / 8 : 12.0;
    // Padding is under 256 bytes and one element of each of the four tensors of a parameter.
    EXPECT_NEAR(static_cast<double>(persistent), (parameters + states) * n, 1e-4 * n) << zero;
    int64_t gradients = 0;  // what is kept from one micro-batch to the next
    std::set<int> kept;
    for (const Segment& segment : program.find_phase("step")->segments) {
      if (segment.name != "begin") continue;
      for (const Instruction& instruction : segment.body) kept.insert(instruction.outputs[0]);
    }
    for (const int b : kept) {
      const Buffer& buffer = program.buffers[static_cast<size_t>(b)];
      if (buffer.category == Category::kGradients) gradients += program.reserved_bytes(b);
    }
    EXPECT_NEAR(static_cast<double>(gradients), (zero >= 2 ? 4.0 / 8 : 4.0) * n, 1e-4 * n) << zero;
  }
}

TEST(Zero, PrefetchCostsABlockAndHidesTransfers) {
  Bf16 c;
  const Cluster cluster = parse_cluster("8xa100-80gb");
  const auto step = [&](bool prefetch) { return simulate(c.program(3, prefetch), cluster); };
  EXPECT_LT(step(true).step_seconds, step(false).step_seconds);
  EXPECT_LT(step(true).exposed_seconds, step(false).exposed_seconds);
  const auto bytes = [&](bool prefetch) {
    return most(c.program(3, prefetch), Category::kParameters);
  };
  EXPECT_GT(bytes(true), bytes(false));
  int64_t shards = 0;
  const StepProgram program = c.program(3);
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    if (program.buffers[b].persistent && program.buffers[b].category == Category::kParameters) {
      shards += program.reserved_bytes(static_cast<int>(b));
    }
  }
  // One block of four, or the head: a matrix of 32000 x 4096.
  const int64_t block = 2 * (4 * 4096 * 4096 + 3 * 4096 * 11008 + 2 * 4096);
  EXPECT_NEAR(static_cast<double>(bytes(false) - shards), static_cast<double>(block), 1e4);
}

TEST(Zero, WhatCannotBeIsRefused) {
  const auto message = [](int dp, int zero, bool prefetch) {
    Bf16 c;
    c.strategy.dp = dp;
    try {
      (void)c.program(zero, prefetch);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      return std::string(error.what());
    }
    return std::string();
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(message(8, 4, false), HasSubstr("not 0, 1, 2 or 3"));
  EXPECT_THAT(message(8, -1, false), HasSubstr("not 0, 1, 2 or 3"));
  EXPECT_THAT(message(1, 1, false), HasSubstr("there is one"));
  EXPECT_THAT(message(8, 1, true), HasSubstr("nothing to prefetch"));
  EXPECT_EQ(message(8, 3, true), "");
}

TEST(Zero, SearchShardsOnGpusAndOnCpusWhenAsked) {
  const ModelSpec model = load_model("gpt2-tiny");
  Job job;
  job.global_batch = 8;
  job.seq = 32;
  const auto least = [&](const char* cluster, const Pins& pins) {
    return search(model, parse_cluster(cluster), job, pins, int64_t{1} << 40,
                  SearchObjective::kMemory, true)
        .best->strategy;
  };
  EXPECT_GT(least("8xa100-80gb", {}).zero, 0);
  EXPECT_EQ(least("8xcpu", {}).zero, 0);
  Pins pins;
  pins.zero = 2;
  EXPECT_EQ(least("8xcpu", pins).zero, 2);
  EXPECT_EQ(least("8xa100-80gb", pins).zero, 2);
  EXPECT_THAT(least("8xa100-80gb", pins).text(job), ::testing::HasSubstr("ZeRO-2"));
  Strategy strategy;
  EXPECT_EQ(why_not_runnable(strategy), "");
  strategy.zero = 3;
  strategy.tp = strategy.pp = 2;
  EXPECT_EQ(why_not_runnable(strategy), "");
  strategy.cp = 2;
  EXPECT_THAT(why_not_runnable(strategy), ::testing::HasSubstr("context"));
}

TEST(Zero, PlansReadBack) {
  const ModelSpec model = load_model("gpt2-tiny");
  Job job;
  job.global_batch = 8;
  job.seq = 32;
  Pins pins;
  pins.zero = 3;
  Plan plan = *search(model, parse_cluster("8xa100-80gb"), job, pins, int64_t{1} << 40,
                      SearchObjective::kTime)
                   .best;
  for (const bool prefetch : {false, true}) {
    plan.strategy.zero_prefetch = prefetch;
    EXPECT_EQ(parse_plan_json(plan_json(plan), "plan.json").strategy, plan.strategy);
  }
}

}  // namespace
}  // namespace plimsoll
