// Folded schedules and their lowering to several chunks a stage.
#include "base/error.h"
#include "costmodel/rank_simulator.h"
#include "planner/lower/lower.h"
#include "planner/schedule_fold.h"
#include "program/expand.h"
#include "program/liveness.h"
#include "program/verify.h"
#include "tests/costmodel/expect_error.h"
#include "tests/costmodel/unit_time.h"
#include "tests/planner/random_model.h"
#include "tests/planner/rendezvous.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <tuple>

namespace plimsoll {
namespace {

struct PipelineCase {
  ModelSpec model;
  Job job;
  Strategy strategy;
};

PipelineCase interleaved(int layers, int pp, int chunks, int64_t microbatches) {
  PipelineCase c;
  c.model = testing::random_transformer("gpt2-tiny", layers, 2, 8, 50);
  c.job.global_batch = microbatches;
  c.job.seq = 8;
  c.strategy.pp = pp;
  c.strategy.schedule = "interleaved";
  c.strategy.interleave = chunks;
  c.strategy.recompute.assign(static_cast<size_t>(layers), Recompute::kNone);
  return c;
}

PipelineCase random_pipeline() {
  const int pp = *rc::gen::inRange(2, 5);
  const auto schedule =
      *rc::gen::element<std::string>("1f1b", "gpipe", "zb-h1", "interleaved", "interleaved");
  const int chunks = schedule == "interleaved" ? *rc::gen::inRange(2, 4) : 1;
  const int64_t microbatches =
      chunks > 1 ? int64_t{pp} * *rc::gen::inRange(1, 6) : int64_t{*rc::gen::inRange(1, 12)};
  PipelineCase c = interleaved(pp * chunks + *rc::gen::inRange(0, 4), pp, chunks, microbatches);
  c.strategy.schedule = schedule;
  c.strategy.dp = *rc::gen::inRange(1, 3);
  c.strategy.zero = c.strategy.dp > 1 ? *rc::gen::inRange(0, 4) : 0;
  c.strategy.zero_prefetch = c.strategy.zero >= 2 && *rc::gen::arbitrary<bool>();
  c.strategy.tp = *rc::gen::element(1, 2);
  c.strategy.sequence_parallel = c.strategy.tp > 1 && *rc::gen::arbitrary<bool>();
  c.job.global_batch *= c.strategy.dp;
  c.job.eval_batches = *rc::gen::inRange(0, 2);
  for (Recompute& one : c.strategy.recompute) {
    one = *rc::gen::element(Recompute::kNone, Recompute::kFull);
  }
  return c;
}

RC_GTEST_PROP(FoldedSchedule, UnfoldsToTheOrder, ()) {
  const auto kind = static_cast<ScheduleKind>(*rc::gen::inRange(0, kNumScheduleKinds));
  const int p = *rc::gen::inRange(1, 9);
  const int r = *rc::gen::inRange(0, p);
  const bool chunked = kind == ScheduleKind::kInterleaved;
  const int64_t m = chunked ? int64_t{p} * *rc::gen::inRange(1, 7) : *rc::gen::inRange(1, 40);
  const int v = chunked ? *rc::gen::inRange(1, 5) : 1;
  const std::vector<ScheduleRun> runs = fold_schedule(kind, r, p, m, v);
  std::vector<ScheduleSlot> unfolded;
  for (const ScheduleRun& run : runs) {
    for (int64_t i = 0; i < run.repeat; ++i) {
      for (ScheduleSlot slot : run.slots) {
        RC_ASSERT(slot.microbatch >= 0);
        slot.microbatch += run.first_microbatch + i * run.stride;
        unfolded.push_back(slot);
      }
    }
  }
  RC_ASSERT(unfolded == schedule_order(kind, r, p, m, v));
  // Warm-up and cool-down change the chunk at most 2 v times each, the steady part's rest as often.
  RC_ASSERT(runs.size() <= static_cast<size_t>(6 * v + 1));
}

TEST(FoldedSchedule, DoesNotGrowWithTheMicroBatches) {
  for (int r = 0; r < 4; ++r) {
    const auto few = fold_schedule(ScheduleKind::kInterleaved, r, 4, 16, 3);
    const auto many = fold_schedule(ScheduleKind::kInterleaved, r, 4, 768, 3);
    ASSERT_EQ(few.size(), many.size());
    for (size_t i = 0; i < few.size(); ++i) EXPECT_EQ(few[i].slots, many[i].slots);
  }
}

RC_GTEST_PROP(Interleaved, EveryStageVerifies, ()) {
  const PipelineCase c = random_pipeline();
  for (const StepProgram& program : lower_stages(c.model, c.job, c.strategy, {})) {
    const std::vector<Violation> violations = verify(program);
    RC_ASSERT((violations.empty() ? "" : violations.front().message) == "");
    RC_ASSERT(verify(expand(program)).empty());
  }
}

// Of each phase, the micro-batches of each channel's messages in the order of sending and
// receiving.
RC_GTEST_PROP(Interleaved, SendsAndReceivesMatchInOrder, ()) {
  const PipelineCase c = random_pipeline();
  using Channel = std::tuple<std::string, int, int, int64_t>;  // phase, from, to, tag
  std::map<Channel, std::vector<int>> sent;
  std::map<Channel, std::vector<int>> received;
  const int p = c.strategy.pp;
  const std::vector<StepProgram> stages = lower_stages(c.model, c.job, c.strategy, {});
  for (const StepProgram& program : stages) {
    const int at = program.header.coordinates.pp;
    const StepProgram flat = expand(program);
    for (const Phase& phase : flat.phases) {
      for (const Segment& segment : phase.segments) {
        for (const Instruction& one : segment.body) {
          const bool send = one.op == "send";
          if (!send && one.op != "receive") continue;
          const bool next = one.attributes.get_string("peer") == "next";
          const int other = (at + (next ? 1 : p - 1)) % p;
          const Channel channel(phase.name, send ? at : other, send ? other : at,
                                one.attributes.get_int("tag", -1));
          (send ? sent : received)[channel].push_back(one.microbatch);
        }
      }
    }
  }
  RC_ASSERT(sent == received);
  RC_ASSERT(!sent.empty());
  for (const char* phase : {"step", "evaluate"}) {
    if (stages[0].find_phase(phase) == nullptr) continue;
    RC_ASSERT(testing::Rendezvous::stuck(stages, phase) == "");
  }
  // Nobody waits for ever, however long sends may be under way.
  for (const int64_t lag : {-1, 0, 1}) {
    SimulateOptions options;
    options.send_lag = lag;
    RC_ASSERT(simulate_ranks(stages, Cluster{}, FlopsAreSeconds(), BytesAreSeconds(), options)
                  .step_seconds > 0);
  }
}

TEST(Interleaved, NoStageWaitsForEverInTheExecutorsOrder) {
  for (int p = 2; p <= 5; ++p) {
    for (int v = 2; v <= 3; ++v) {
      for (int64_t groups = 1; groups <= 5; ++groups) {
        const PipelineCase c = interleaved(p * v, p, v, p * groups);
        EXPECT_EQ(testing::Rendezvous::stuck(lower_stages(c.model, c.job, c.strategy, {}), "step"),
                  "")
            << p << " stages, " << v << " chunks, " << groups << " groups";
      }
    }
  }
}

// The flat program takes the same time: rounds hide no wait and add none, with free messages.
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

TEST(Interleaved, EqualStagesTakeTheClosedForm) {
  for (const auto& [p, v, groups] : {std::tuple{2, 2, 1}, std::tuple{2, 3, 4}, std::tuple{3, 2, 2},
                                     std::tuple{4, 2, 5}, std::tuple{4, 3, 2}}) {
    const int64_t m = int64_t{p} * groups;
    const PipelineCase c = interleaved(2 * p * v, p, v, m);
    const auto stages = lower_stages(c.model, c.job, c.strategy, {});
    double chunk_seconds = 0;  // forward and backward
    for (const Segment& segment : stages[0].find_phase("step")->segments) {
      for (const Instruction& one : segment.body) {
        const bool works = one.pass == Pass::kForward || one.pass == Pass::kBackward;
        if (works && one.layer >= 0)
          chunk_seconds += one.flops * static_cast<double>(segment.repeat);
      }
    }
    chunk_seconds /= static_cast<double>(m * v);
    const SimulatedRun run = simulate_ranks(stages, Cluster{}, LayersAreSeconds(), Free());
    double update = 0;  // the layers' own part of the segments behind
    for (const Segment& segment : stages[0].find_phase("step")->segments) {
      for (const Instruction& one : segment.body) {
        if (one.pass == Pass::kUpdate || one.pass == Pass::kReduce) {
          update += one.layer < 0 ? 0 : one.flops;
        }
      }
    }
    const double expected = (static_cast<double>(m * v) + p - 1) * chunk_seconds + update;
    EXPECT_DOUBLE_EQ(run.step_seconds, expected) << p << " stages, " << v << " chunks, " << m;
  }
}

// Values of the first op of each layer that are alive at once: as many as the schedule holds.
TEST(Interleaved, StagesHoldWhatTheScheduleSays) {
  for (const auto& [p, v, groups] :
       {std::tuple{2, 2, 4}, std::tuple{4, 2, 3}, std::tuple{3, 3, 2}, std::tuple{4, 2, 1}}) {
    const int64_t m = int64_t{p} * groups;
    const PipelineCase c = interleaved(p * v, p, v, m);
    const auto stages = lower_stages(c.model, c.job, c.strategy, {});
    for (int r = 0; r < p; ++r) {
      const StepProgram& program = stages[static_cast<size_t>(r)];
      const Liveness liveness = compute_liveness(program);
      std::map<int64_t, int64_t> change;  // of the values alive, by position
      const size_t step = static_cast<size_t>(program.find_phase("step") - program.phases.data());
      for (int chunk = 0; chunk < v; ++chunk) {
        const int b = program.find_buffer(fmt::format("h.{}.mlp.c_fc", chunk * p + r));
        ASSERT_NE(b, kNoBuffer);
        for (int64_t id = liveness.first_copy[static_cast<size_t>(b)];
             id < liveness.first_copy[static_cast<size_t>(b) + 1]; ++id) {
          for (const Interval& live : liveness.phases[step].live[static_cast<size_t>(id)]) {
            ++change[live.lower];
            --change[live.upper];
          }
        }
      }
      int64_t alive = 0;
      int64_t most = 0;
      for (const auto& [position, by] : change) most = std::max(most, alive += by);
      EXPECT_EQ(most, peak_in_flight(schedule_order(ScheduleKind::kInterleaved, r, p, m, v)))
          << "stage " << r << " of " << p << ", " << v << " chunks, " << m;
    }
  }
}

TEST(Interleaved, AStepOfManyMicroBatchesIsNoLarger) {
  const PipelineCase few = interleaved(8, 4, 2, 16);
  const PipelineCase many = interleaved(8, 4, 2, 768);
  const auto a = lower_stages(few.model, few.job, few.strategy, {});
  const auto b = lower_stages(many.model, many.job, many.strategy, {});
  for (size_t stage = 0; stage < a.size(); ++stage) {
    EXPECT_EQ(a[stage].header.arena_bytes, b[stage].header.arena_bytes);
    const auto& of_few = a[stage].find_phase("step")->segments;
    const auto& of_many = b[stage].find_phase("step")->segments;
    ASSERT_EQ(of_few.size(), of_many.size());
    for (size_t s = 0; s < of_few.size(); ++s) {
      EXPECT_EQ(of_few[s].body.size(), of_many[s].body.size());
    }
  }
}

TEST(Interleaved, WhatCannotBeInterleavedIsRefused) {
  const auto refused = [](PipelineCase c, const char* why) {
    expect_error([&] { (void)lower_stages(c.model, c.job, c.strategy, {}); }, ExitCode::kBadInput,
                 why);
  };
  refused(interleaved(8, 2, 2, 3), "multiple of 2 micro-batches");
  refused(interleaved(3, 2, 2, 4), "cannot be cut into 4 stages");
  refused(interleaved(8, 2, 1, 4), "at least two chunks");
  refused(interleaved(8, 1, 2, 4), "several pipeline stages");
  PipelineCase c = interleaved(8, 2, 2, 4);
  c.strategy.stage_bounds = {0, 4, 8};
  refused(c, "do not cut 8 layers into 4 stages");
  c.strategy.stage_bounds = {0, 1, 4, 6, 8};
  EXPECT_EQ(lower_stages(c.model, c.job, c.strategy, {}).size(), 2U);
}

}  // namespace
}  // namespace plimsoll
