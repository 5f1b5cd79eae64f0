// Expert parallelism and hybrid sharding: every plan verifies, bytes and volumes are the closed
// forms.
#include "base/error.h"
#include "costmodel/simulator.h"
#include "planner/lower/lower.h"
#include "planner/plan.h"
#include "program/text.h"
#include "program/timeline.h"
#include "program/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

namespace plimsoll {
namespace {

struct Case {
  ModelSpec model;
  Job job;
  Strategy strategy;
};

Case expert_case(const std::string& name, int ep, int dp, int zero) {
  Case c;
  c.model = load_model(name);
  c.strategy.ep = ep;
  c.strategy.dp = dp;
  c.strategy.zero = zero;
  c.strategy.recompute.assign(static_cast<size_t>(c.model.layers), Recompute::kNone);
  c.job.seq = 8;
  c.job.global_batch = int64_t{2} * ep * dp;
  return c;
}

Case random_experts() {
  const int ep = *rc::gen::element(1, 2, 4);
  const int dp = *rc::gen::inRange(1, 4);
  const int zero = ep * dp == 1 ? 0 : *rc::gen::inRange(0, 4);
  Case c =
      expert_case(*rc::gen::element<std::string>("mixtral-tiny", "deepseek-tiny"), ep, dp, zero);
  c.strategy.zero_prefetch = zero >= 2 && *rc::gen::arbitrary<bool>();
  c.strategy.micro_batch = *rc::gen::inRange(1, 3);
  c.job.global_batch = ep * dp * c.strategy.micro_batch * *rc::gen::inRange(1, 4);
  for (Recompute& one : c.strategy.recompute) {
    one = *rc::gen::element(Recompute::kNone, Recompute::kFull);
  }
  c.job.eval_batches = *rc::gen::inRange(0, 2);
  if (zero < 2 && c.model.layers > 1) c.strategy.pp = *rc::gen::element(1, 2);
  return c;
}

std::string first_violation(const StepProgram& program) {
  const std::vector<Violation> violations = verify(program);
  return violations.empty() ? "" : violations.front().rule + ": " + violations.front().message;
}

bool is_expert(const Buffer& buffer) { return buffer.name.find(".experts.") != std::string::npos; }

int64_t elements_of(const StepProgram& program, const std::string& role, bool experts) {
  int64_t sum = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.logical && buffer.logical->role == role && is_expert(buffer) == experts) {
      sum += num_elements(buffer.shape);
    }
  }
  return sum;
}

RC_GTEST_PROP(Experts, AnyPlanVerifiesAndReadsBackOnEveryRank, ()) {
  const Case c = random_experts();
  const std::vector<StepProgram> programs = lower_ranks(c.model, c.job, c.strategy, {});
  RC_ASSERT(static_cast<int>(programs.size()) == c.strategy.num_ranks());
  std::set<std::string> names;
  std::set<int64_t> samples;
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    const StepProgram& program = programs[rank];
    RC_ASSERT(first_violation(program) == "");
    RC_ASSERT(program.header.rank == static_cast<int>(rank));
    RC_ASSERT(parse_text(to_text(program), "experts") == program);
    samples.insert(program.header.samples.first);
    for (const Buffer& buffer : program.buffers) {
      if (!buffer.logical || buffer.logical->role != "parameter") continue;
      for (const LogicalPart& part : buffer.logical->parts) names.insert(part.name);
    }
  }
  RC_ASSERT(static_cast<int>(samples.size()) == c.strategy.num_sample_ranks());
  // The ranks' experts together are all of the model's.
  Case whole = c;
  whole.strategy = expert_case(c.model.name, 1, 1, 0).strategy;
  std::set<std::string> all;
  for (const Buffer& buffer : lower(whole.model, whole.job, whole.strategy, {}).buffers) {
    if (!buffer.logical || buffer.logical->role != "parameter") continue;
    for (const LogicalPart& part : buffer.logical->parts) all.insert(part.name);
  }
  RC_ASSERT(names == all);
}

TEST(Experts, ExpertsAreDividedAndTheRestIsNot) {
  for (const char* name : {"mixtral-tiny", "deepseek-tiny"}) {
    const Case one = expert_case(name, 1, 1, 0);
    const StepProgram whole = lower(one.model, one.job, one.strategy, {});
    const Case four = expert_case(name, 4, 2, 0);
    const StepProgram part = lower(four.model, four.job, four.strategy, {});
    EXPECT_EQ(elements_of(part, "parameter", true) * 4, elements_of(whole, "parameter", true));
    EXPECT_EQ(elements_of(part, "parameter", false), elements_of(whole, "parameter", false));
    // ZeRO divides experts over dp and the others over ep and dp.
    const Case sharded = expert_case(name, 4, 2, 1);
    const StepProgram zero = lower(sharded.model, sharded.job, sharded.strategy, {});
    EXPECT_EQ(elements_of(zero, "moment1", true) * 8, elements_of(whole, "parameter", true));
    EXPECT_GE(elements_of(zero, "moment1", false) * 8, elements_of(whole, "parameter", false));
    EXPECT_LT(elements_of(zero, "moment1", false) * 4, elements_of(whole, "parameter", false));
  }
}

TEST(Experts, GradientsAreReducedOverThoseThatHoldTheParameter) {
  const Case c = expert_case("mixtral-tiny", 4, 2, 0);
  const StepProgram program = lower(c.model, c.job, c.strategy, {});
  int experts = 0;
  int others = 0;
  for (const Segment& segment : program.find_phase("step")->segments) {
    if (segment.name != "exchange") continue;
    for (const Instruction& one : segment.body) {
      const Buffer& buffer = program.buffers[static_cast<size_t>(one.outputs.front())];
      if (buffer.category != Category::kGradients) continue;
      EXPECT_EQ(one.attributes.get_string("group"), is_expert(buffer) ? "dp" : "data");
      const CollectiveGroup group = group_of(one, program.header.coordinates);
      EXPECT_EQ(group, is_expert(buffer) ? (CollectiveGroup{2, 4}) : (CollectiveGroup{8, 1}));
      ++(is_expert(buffer) ? experts : others);
    }
  }
  EXPECT_EQ(experts, 2 * c.model.layers);
  EXPECT_GT(others, experts);
}

// Tokens times chosen experts, a row each, go to the experts and come back, in both passes.
TEST(Experts, WhatRanksExchangeIsARowAChoice) {
  const Case c = expert_case("mixtral-tiny", 4, 1, 0);
  const StepProgram program = lower(c.model, c.job, c.strategy, {});
  double bytes = 0;
  for (const Segment& segment : program.find_phase("step")->segments) {
    for (const Instruction& one : segment.body) {
      if (one.op != "all_to_all") continue;
      const Buffer& buffer = program.buffers[static_cast<size_t>(one.outputs.front())];
      if (buffer.dtype == DType::kI32) continue;
      bytes += collective_bytes(program, one) * static_cast<double>(segment.repeat);
    }
  }
  const int64_t rows = 2 * c.job.seq * c.model.experts->chosen;  // of a rank's two samples
  EXPECT_DOUBLE_EQ(bytes, static_cast<double>(4 * rows * c.model.hidden * 4 * c.model.layers));
}

std::string refusal(const Case& c) {
  try {
    check_strategy(c.model, c.job, c.strategy);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Experts, WhatDoesNotGoTogetherIsRefused) {
  EXPECT_THAT(refusal(expert_case("llama-tiny", 2, 1, 0)), ::testing::HasSubstr("no experts"));
  EXPECT_THAT(refusal(expert_case("mixtral-tiny", 3, 1, 0)),
              ::testing::HasSubstr("does not divide"));
  Case c = expert_case("mixtral-tiny", 2, 2, 1);
  c.strategy.shard_group = 2;
  EXPECT_THAT(refusal(c), ::testing::HasSubstr("hybrid"));
  c = expert_case("llama-tiny", 1, 4, 0);
  c.strategy.shard_group = 2;
  EXPECT_THAT(refusal(c), ::testing::HasSubstr("without ZeRO"));
  c.strategy.zero = 1;
  c.strategy.shard_group = 3;
  EXPECT_THAT(refusal(c), ::testing::HasSubstr("does not divide"));
  EXPECT_NE(why_not_runnable(c.strategy), "");
}

// Four ranks in groups of two hold what two ranks would, and reduce over both.
RC_GTEST_PROP(HybridSharding, ItsStatesAreThoseOfASmallerGroup, ()) {
  const int zero = *rc::gen::inRange(1, 4);
  Case c = expert_case(*rc::gen::element<std::string>("llama-tiny", "gpt2-tiny"), 1, 6, zero);
  c.job.global_batch = 6 * *rc::gen::inRange(1, 4);
  c.strategy.shard_group = *rc::gen::element(2, 3);
  const StepProgram hybrid = lower(c.model, c.job, c.strategy, {});
  RC_ASSERT(first_violation(hybrid) == "");
  Case small = c;
  small.strategy.dp = c.strategy.shard_group;
  small.strategy.shard_group = 0;
  small.job.global_batch = c.job.global_batch / 6 * small.strategy.dp;
  const StepProgram whole = lower(small.model, small.job, small.strategy, {});
  for (const char* role : {"parameter", "moment1"}) {
    RC_ASSERT(elements_of(hybrid, role, false) == elements_of(whole, role, false));
  }
  RC_ASSERT(compute_timeline(hybrid).live_peak_bytes() ==
            compute_timeline(whole).live_peak_bytes());
  int over_replicas = 0;
  for (const Segment& segment : hybrid.find_phase("step")->segments) {
    for (const Instruction& one : segment.body) {
      if (one.attributes.get_string("group", "") != "replica") continue;
      ++over_replicas;
      RC_ASSERT(group_of(one, hybrid.header.coordinates) ==
                (CollectiveGroup{6 / c.strategy.shard_group, c.strategy.shard_group}));
      const Buffer& buffer = hybrid.buffers[static_cast<size_t>(one.outputs.front())];
      const int64_t n = one.attributes.get_int("elements");
      const int64_t part = (n + c.strategy.shard_group - 1) / c.strategy.shard_group;
      RC_ASSERT(std::abs(collective_bytes(hybrid, one) -
                         static_cast<double>(part * dtype_bytes(buffer.dtype))) < 0.5);
    }
  }
  RC_ASSERT(over_replicas > 0);
}

}  // namespace
}  // namespace plimsoll
