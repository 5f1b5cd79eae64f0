// Pipeline stages: every stage verifies, holds as many micro-batches as its schedule says, and all
// stages together do what one device does.
#include "base/error.h"
#include "models/stage.h"
#include "planner/lower/lower.h"
#include "program/timeline.h"
#include "program/verify.h"
#include "tests/planner/random_model.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <span>

namespace plimsoll {
namespace {

struct PipelineCase {
  ModelSpec model;
  Job job;
  Strategy strategy;
};

PipelineCase pipeline(int layers, int pp, int64_t microbatches, const std::string& schedule) {
  PipelineCase c;
  c.model = testing::random_transformer("gpt2-tiny", layers, 2, 8, 50);
  c.job.global_batch = microbatches;
  c.job.seq = 8;
  c.strategy.pp = pp;
  c.strategy.schedule = schedule;
  c.strategy.recompute.assign(static_cast<size_t>(layers), Recompute::kNone);
  return c;
}

const Buffer& find(const StepProgram& program, const std::string& name) {
  const int index = program.find_buffer(name);
  EXPECT_NE(index, kNoBuffer) << name;
  return program.buffers[static_cast<size_t>(std::max(0, index))];
}

// How often each op runs in a step, by layer.
std::map<std::string, int64_t> calls(std::span<const StepProgram> programs) {
  std::map<std::string, int64_t> count;
  for (const StepProgram& program : programs) {
    for (const Segment& segment : program.find_phase("step")->segments) {
      for (const Instruction& one : segment.body) {
        if (one.pass == Pass::kForward || one.pass == Pass::kBackward) {
          count[fmt::format("{} {}", one.layer, one.op)] += segment.repeat;
        }
      }
    }
  }
  return count;
}

RC_GTEST_PROP(Pipeline, EveryStageVerifies, ()) {
  const int pp = *rc::gen::inRange(2, 5);
  const int layers = pp + *rc::gen::inRange(0, 4);
  PipelineCase c = pipeline(layers, pp, *rc::gen::inRange(1, 10),
                            *rc::gen::element<std::string>("1f1b", "gpipe"));
  c.strategy.dp = *rc::gen::inRange(1, 3);
  c.job.global_batch *= c.strategy.dp;
  c.job.eval_batches = *rc::gen::inRange(0, 2);
  for (Recompute& one : c.strategy.recompute) {
    one = *rc::gen::element(Recompute::kNone, Recompute::kSelective, Recompute::kFull);
  }
  for (const StepProgram& program : lower_stages(c.model, c.job, c.strategy, {})) {
    const std::vector<Violation> violations = verify(program);
    RC_ASSERT((violations.empty() ? "" : violations.front().message) == "");
    RC_ASSERT(program.header.arena_bytes >= compute_timeline(program).live_peak_bytes());
  }
}

RC_GTEST_PROP(Pipeline, EveryCombinationOfSplitsVerifies, ()) {
  const int pp = *rc::gen::inRange(1, 4);
  const int layers = pp + *rc::gen::inRange(0, 3);
  PipelineCase c = pipeline(layers, pp, *rc::gen::inRange(1, 5), "1f1b");
  c.model =
      testing::random_transformer(*rc::gen::element<std::string>("gpt2-tiny", "llama-tiny"), layers,
                                  4, 2 * *rc::gen::inRange(1, 5), *rc::gen::inRange(20, 80));
  c.strategy.tp = *rc::gen::element(1, 2, 4);
  c.strategy.sequence_parallel = c.strategy.tp > 1 && *rc::gen::arbitrary<bool>();
  c.strategy.dp = *rc::gen::inRange(1, 3);
  c.strategy.zero = c.strategy.dp > 1 ? *rc::gen::inRange(0, 4) : 0;
  c.job.global_batch *= c.strategy.dp;
  c.job.eval_batches = *rc::gen::inRange(0, 2);
  for (Recompute& one : c.strategy.recompute) {
    one = *rc::gen::element(Recompute::kNone, Recompute::kSelective, Recompute::kFull);
  }
  for (const StepProgram& program : lower_stages(c.model, c.job, c.strategy, {})) {
    const std::vector<Violation> violations = verify(program);
    RC_ASSERT((violations.empty() ? "" : violations.front().message) == "");
  }
}

TEST(Pipeline, StagesKeepAsManyMicroBatchesAsTheScheduleSays) {
  for (const int64_t m : {1, 3, 4, 9}) {
    const auto one_f_one_b = pipeline(4, 4, m, "1f1b");
    const auto gpipe = pipeline(4, 4, m, "gpipe");
    const auto f = lower_stages(one_f_one_b.model, one_f_one_b.job, one_f_one_b.strategy, {});
    const auto g = lower_stages(gpipe.model, gpipe.job, gpipe.strategy, {});
    for (int stage = 0; stage < 4; ++stage) {
      const std::string kept = fmt::format("h.{}.mlp.c_fc", stage);
      EXPECT_EQ(find(f[static_cast<size_t>(stage)], kept).copies, std::min<int64_t>(m, 4 - stage));
      EXPECT_EQ(find(g[static_cast<size_t>(stage)], kept).copies, m);
    }
  }
}

TEST(Pipeline, AllStagesTogetherDoWhatOneDeviceDoes) {
  for (const char* schedule : {"1f1b", "gpipe"}) {
    auto c = pipeline(5, 3, 4, schedule);
    const auto stages = lower_stages(c.model, c.job, c.strategy, {});
    c.strategy.pp = 1;
    const StepProgram whole = lower(c.model, c.job, c.strategy, {});
    auto together = calls(stages);
    EXPECT_EQ(together["-1 send"], 2 * 2 * 4);  // two borders, both ways, four micro-batches
    EXPECT_EQ(together["-1 receive"], 2 * 2 * 4);
    together.erase("-1 send");
    together.erase("-1 receive");
    auto alone = calls(std::vector<StepProgram>{whole});
    // Every stage clears a loss and its own gradients; the tied table is cleared in both.
    together.erase("-1 fill");
    alone.erase("-1 fill");
    EXPECT_EQ(together, alone);
  }
}

TEST(Pipeline, TiedTableHasOneGradientOverItsTwoStages) {
  const auto c = pipeline(4, 2, 4, "1f1b");
  const auto stages = lower_stages(c.model, c.job, c.strategy, {});
  for (const StepProgram& program : stages) {
    int reductions = 0;
    for (const Segment& segment : program.find_phase("step")->segments) {
      for (const Instruction& one : segment.body) {
        reductions += one.op == "all_reduce" && one.attributes.get_string("group") == "embedding";
      }
    }
    EXPECT_EQ(reductions, 1);
  }
}

TEST(Pipeline, AStepOfManyMicroBatchesIsNoLarger) {
  const auto few = pipeline(4, 4, 16, "1f1b");
  const auto many = pipeline(4, 4, 768, "1f1b");
  const auto a = lower_stages(few.model, few.job, few.strategy, {});
  const auto b = lower_stages(many.model, many.job, many.strategy, {});
  for (size_t stage = 0; stage < a.size(); ++stage) {
    EXPECT_EQ(a[stage].header.arena_bytes, b[stage].header.arena_bytes);
    EXPECT_EQ(a[stage].find_phase("step")->segments.size(),
              b[stage].find_phase("step")->segments.size());
  }
}

// Activations that a stage keeps, in closed form: its layers' saved bytes for every micro-batch in
// flight.
TEST(Pipeline, KeptActivationsGrowWithTheMicroBatchesInFlight) {
  const auto c = pipeline(8, 4, 8, "1f1b");
  const auto stages = lower_stages(c.model, c.job, c.strategy, {});
  const auto kept_bytes = [](const StepProgram& program) {
    int64_t sum = 0;
    for (size_t i = 0; i < program.buffers.size(); ++i) {
      const Buffer& buffer = program.buffers[i];
      if (buffer.copies > 1 && buffer.layer >= 0) {
        sum += buffer.copies * program.reserved_bytes(static_cast<int>(i));
      }
    }
    return sum;
  };
  const int64_t one = kept_bytes(stages[1]) / 3;
  EXPECT_EQ(kept_bytes(stages[0]), 4 * one);
  EXPECT_EQ(kept_bytes(stages[2]), 2 * one);
}

TEST(Pipeline, BoundsThatDoNotCutTheLayersAreRefused) {
  auto c = pipeline(4, 2, 4, "1f1b");
  for (const std::vector<int>& bounds : {std::vector<int>{0, 4}, std::vector<int>{0, 5, 4},
                                         std::vector<int>{1, 2, 4}, std::vector<int>{0, 2, 5}}) {
    c.strategy.stage_bounds = bounds;
    EXPECT_THROW((void)lower_stages(c.model, c.job, c.strategy, {}), Error);
  }
  c.strategy.stage_bounds = {0, 1, 4};
  EXPECT_EQ(lower_stages(c.model, c.job, c.strategy, {}).size(), 2U);
  c.strategy.stage_bounds.clear();
  c.strategy.pp = 5;
  EXPECT_THROW((void)lower_stages(c.model, c.job, c.strategy, {}), Error);
}

}  // namespace
}  // namespace plimsoll
