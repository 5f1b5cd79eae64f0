// Lowering with a backward in two parts (Qi et al. 2023): what a stage does when, and what it
// holds.
#include "costmodel/rank_simulator.h"
#include "planner/lower/lower.h"
#include "planner/schedule.h"
#include "program/liveness.h"
#include "program/verify.h"
#include "tests/costmodel/unit_time.h"
#include "tests/planner/random_model.h"
#include "tests/planner/rendezvous.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

namespace plimsoll {
namespace {

struct PipelineCase {
  ModelSpec model;
  Job job;
  Strategy strategy;
};

PipelineCase zero_bubble(int layers, int pp, int64_t microbatches) {
  PipelineCase c;
  c.model = testing::random_transformer("gpt2-tiny", layers, 2, 8, 50);
  c.job.global_batch = microbatches;
  c.job.seq = 8;
  c.strategy.pp = pp;
  c.strategy.schedule = "zb-h1";
  c.strategy.recompute.assign(static_cast<size_t>(layers), Recompute::kNone);
  return c;
}

class LayersAreSeconds final : public OpTimeModel {
 public:
  double op_seconds(const Instruction& instruction, const Hardware&, DType) const override {
    return instruction.layer < 0 ? 0 : instruction.flops;
  }
};

class Free final : public CollectiveTimeModel {
 public:
  double collective_seconds(Collective, double, const CollectiveGroup&,
                            const Cluster&) const override {
    return 0;
  }
};

bool is_weight_part(const Instruction& instruction) {
  return instruction.op == "linear.backward_weight";
}

// Seconds of a stage's layers, by what of a micro-batch they belong to.
struct LayerSeconds {
  double forward = 0, input = 0, weight = 0, update = 0;
};

LayerSeconds layer_seconds(const StepProgram& program) {
  LayerSeconds of;
  for (const Segment& segment : program.find_phase("step")->segments) {
    for (const Instruction& one : segment.body) {
      if (one.layer < 0) continue;
      const double seconds = one.flops * static_cast<double>(segment.repeat);
      if (one.pass == Pass::kForward) of.forward += seconds;
      if (one.pass == Pass::kBackward) (is_weight_part(one) ? of.weight : of.input) += seconds;
      if (one.pass == Pass::kUpdate || one.pass == Pass::kReduce) of.update += seconds;
    }
  }
  return of;
}

TEST(ZeroBubble, EqualStagesTakeTheClosedForm) {
  for (const auto& [p, m] : {std::tuple{2, 3}, std::tuple{2, 8}, std::tuple{3, 7}, std::tuple{4, 8},
                             std::tuple{5, 12}}) {
    const PipelineCase c = zero_bubble(2 * p, p, m);
    const auto stages = lower_stages(c.model, c.job, c.strategy, {});
    const LayerSeconds of = layer_seconds(stages[0]);
    const double work = of.forward + of.input + of.weight;
    ASSERT_GT(of.weight, 0);
    const double bubble = (p - 1) * (of.forward + of.input - of.weight) / m;
    const SimulatedRun run = simulate_ranks(stages, Cluster{}, LayersAreSeconds(), Free());
    EXPECT_DOUBLE_EQ(run.step_seconds, work + bubble + of.update) << p << " stages, " << m;
    PipelineCase plain = c;
    plain.strategy.schedule = "1f1b";
    const auto plain_stages = lower_stages(c.model, c.job, plain.strategy, {});
    const SimulatedRun other = simulate_ranks(plain_stages, Cluster{}, LayersAreSeconds(), Free());
    EXPECT_DOUBLE_EQ(other.step_seconds - run.step_seconds, 2 * (p - 1) * of.weight / m);
  }
}

// The most copies of a buffer that are alive at once in a step.
int64_t most_alive(const StepProgram& program, const std::string& buffer) {
  const Liveness liveness = compute_liveness(program);
  const int b = program.find_buffer(buffer);
  if (b == kNoBuffer) return -1;
  const auto step = static_cast<size_t>(program.find_phase("step") - program.phases.data());
  std::map<int64_t, int64_t> change;
  for (int64_t id = liveness.first_copy[static_cast<size_t>(b)];
       id < liveness.first_copy[static_cast<size_t>(b) + 1]; ++id) {
    for (const Interval& live : liveness.phases[step].live[static_cast<size_t>(id)]) {
      ++change[live.lower];
      --change[live.upper];
    }
  }
  int64_t alive = 0;
  int64_t most = 0;
  for (const auto& [position, by] : change) most = std::max(most, alive += by);
  return most;
}

// What the weights' part reads is held for it; what the input's part alone reads is not.
TEST(ZeroBubble, StagesHoldWhatEachPartReads) {
  for (const auto& [p, m] : {std::tuple{2, 6}, std::tuple{4, 9}, std::tuple{5, 11}}) {
    const PipelineCase c = zero_bubble(p, p, m);
    const auto stages = lower_stages(c.model, c.job, c.strategy, {});
    for (int r = 0; r < p; ++r) {
      const StepProgram& program = stages[static_cast<size_t>(r)];
      const auto order = schedule_order(ScheduleKind::kZeroBubbleH1, r, p, m);
      EXPECT_EQ(peak_in_flight(order), p);
      EXPECT_EQ(most_alive(program, fmt::format("h.{}.mlp.gelu", r)), p) << r << " of " << p;
      EXPECT_EQ(most_alive(program, fmt::format("h.{}.attn.lse", r)), p - r) << r << " of " << p;
    }
  }
}

TEST(ZeroBubble, NoStageWaitsForEverInTheExecutorsOrder) {
  for (int p = 2; p <= 6; ++p) {
    for (int64_t m = 1; m <= 2 * p + 2; ++m) {
      const PipelineCase c = zero_bubble(p, p, m);
      const auto stages = lower_stages(c.model, c.job, c.strategy, {});
      for (const StepProgram& stage : stages) EXPECT_TRUE(verify(stage).empty());
      EXPECT_EQ(testing::Rendezvous::stuck(stages, "step"), "") << p << " stages, " << m;
    }
  }
}

TEST(ZeroBubble, AStepOfManyMicroBatchesIsNoLarger) {
  const PipelineCase few = zero_bubble(4, 4, 16);
  const PipelineCase many = zero_bubble(4, 4, 768);
  const auto a = lower_stages(few.model, few.job, few.strategy, {});
  const auto b = lower_stages(many.model, many.job, many.strategy, {});
  for (size_t stage = 0; stage < a.size(); ++stage) {
    EXPECT_EQ(a[stage].header.arena_bytes, b[stage].header.arena_bytes);
    EXPECT_EQ(a[stage].find_phase("step")->segments.size(),
              b[stage].find_phase("step")->segments.size());
  }
}

}  // namespace
}  // namespace plimsoll
