// The simulator of several ranks against the closed forms of pipeline schedules: equal stages, free
// messages. p stages, m micro-batches, F, B = Bi + W seconds a slot.
#include "costmodel/rank_simulator.h"
#include "tests/costmodel/pipeline_programs.h"
#include "tests/costmodel/unit_time.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

namespace plimsoll {
namespace {

SimulatedRun run(const Pipeline& pipeline, const SimulateOptions& options = {}) {
  return simulate_ranks(pipeline_programs(pipeline), Cluster{}, FlopsAreSeconds(),
                        BytesAreSeconds(), options);
}

double makespan(ScheduleKind kind, int p, int64_t m, SlotSeconds seconds, int v = 1) {
  return run({kind, p, m, v, std::move(seconds)}).step_seconds;
}

SlotSeconds uneven(std::vector<double> forward, std::vector<double> backward) {
  return [forward = std::move(forward), backward = std::move(backward)](int stage, SlotKind kind) {
    return (kind == SlotKind::kForward ? forward : backward)[static_cast<size_t>(stage)];
  };
}

TEST(RankSchedule, KnownMakespans) {
  EXPECT_EQ(makespan(ScheduleKind::kGPipe, 4, 8, equal_stages(1, 2)), 33);
  EXPECT_EQ(makespan(ScheduleKind::k1F1B, 4, 8, equal_stages(1, 2)), 33);
  EXPECT_EQ(makespan(ScheduleKind::kInterleaved, 4, 8, equal_stages(1, 2), 2), 57);
}

TEST(RankSchedule, KnownMakespansOfUnevenStages) {
  struct Case {
    std::vector<double> forward, backward;
    int64_t microbatches;
    double gpipe, one_one;
  };
  for (const Case& c :
       {Case{{1, 2, 1, 1}, {2, 4, 2, 2}, 8, 57, 53}, Case{{3, 1, 2, 2}, {5, 2, 4, 4}, 8, 79, 70},
        Case{{2, 2, 2, 3}, {4, 4, 4, 6}, 12, 126, 126}}) {
    const SlotSeconds seconds = uneven(c.forward, c.backward);
    EXPECT_EQ(makespan(ScheduleKind::kGPipe, 4, c.microbatches, seconds), c.gpipe);
    EXPECT_EQ(makespan(ScheduleKind::k1F1B, 4, c.microbatches, seconds), c.one_one);
  }
}

// Idle time of a stage between its first and its last instruction. Forwards reach stage r at r F.
double idle_inside(const SimulatedRun& result, int stage, double forward) {
  const SimulatedStage& s = result.stages[static_cast<size_t>(stage)];
  return s.finish_seconds - stage * forward - s.busy_seconds;
}

TEST(RankSchedule, KnownBubblesOfZeroBubble) {
  struct Case {
    ScheduleKind kind;
    int stages;
    int64_t microbatches;
    double forward, input, weight;
    double bubble, most_idle_inside;
  };
  const auto h1 = ScheduleKind::kZeroBubbleH1;
  const auto h2 = ScheduleKind::kZeroBubbleH2;
  for (const Case& c :
       {Case{h1, 4, 8, 1, 1, 1, 3, 3}, Case{h1, 4, 8, 3, 4, 2, 15, 15},
        Case{h1, 8, 24, 1, 1, 1, 7, 7}, Case{h1, 8, 24, 3, 3, 2, 28, 28},
        Case{h2, 4, 8, 1, 1, 1, 3, 0}, Case{h2, 4, 8, 2, 2, 1, 6, 6}, Case{h2, 4, 8, 3, 3, 2, 9, 6},
        Case{h2, 4, 8, 3, 4, 2, 9, 9}, Case{h2, 8, 24, 1, 1, 1, 7, 0}}) {
    const SimulatedRun result =
        run({c.kind, c.stages, c.microbatches, 1, equal_stages(c.forward, c.input, c.weight)});
    const double work = static_cast<double>(c.microbatches) * (c.forward + c.input + c.weight);
    EXPECT_EQ(result.step_seconds - work, c.bubble);
    double idle = 0;
    for (int s = 0; s < c.stages; ++s) idle = std::max(idle, idle_inside(result, s, c.forward));
    EXPECT_EQ(idle, c.most_idle_inside);
  }
}

// Whole seconds, so that sums are exact.
double draw_seconds(int most = 9) { return *rc::gen::inRange(1, most + 1); }

RC_GTEST_PROP(RankSchedule, GPipeAnd1F1B, ()) {
  const int p = *rc::gen::inRange(1, 10);
  const int64_t m = p + *rc::gen::inRange(0, 30);
  const double f = draw_seconds();
  const double b = draw_seconds();
  const double expected = static_cast<double>(m + p - 1) * (f + b);
  RC_ASSERT(makespan(ScheduleKind::kGPipe, p, m, equal_stages(f, b)) == expected);
  RC_ASSERT(makespan(ScheduleKind::k1F1B, p, m, equal_stages(f, b)) == expected);
}

RC_GTEST_PROP(RankSchedule, Interleaved, ()) {
  const int p = *rc::gen::inRange(1, 8);
  const int v = *rc::gen::inRange(2, 5);
  const int64_t m = int64_t{p} * *rc::gen::inRange(1, 5);
  const double f = draw_seconds();
  const double b = draw_seconds();
  RC_ASSERT(makespan(ScheduleKind::kInterleaved, p, m, equal_stages(f, b), v) ==
            (static_cast<double>(m * v) + p - 1) * (f + b));
}

// The weights' half fills the bubble of H1 where it is no longer than the other two.
RC_GTEST_PROP(RankSchedule, ZeroBubble, ()) {
  const int p = *rc::gen::inRange(1, 9);
  const int64_t m = 2 * p + *rc::gen::inRange(0, 20);
  const double f = draw_seconds();
  const double bi = draw_seconds();
  const double w = draw_seconds(static_cast<int>(std::min(f, bi)));
  const double work = static_cast<double>(m) * (f + bi + w);
  const SlotSeconds seconds = equal_stages(f, bi, w);
  RC_ASSERT(makespan(ScheduleKind::kZeroBubbleH1, p, m, seconds) == work + (p - 1) * (f + bi - w));
  const SimulatedRun h2 = run({ScheduleKind::kZeroBubbleH2, p, m, 1, seconds});
  const double inside = (p - 1) * (f + bi - 2 * w);
  RC_ASSERT(h2.step_seconds == work + std::max(inside, (p - 1) * f));
  double idle = 0;
  for (int s = 0; s < p; ++s) idle = std::max(idle, idle_inside(h2, s, f));
  RC_ASSERT(idle == inside);
}

RC_GTEST_PROP(RankSchedule, UnevenStages, ()) {
  const size_t p = *rc::gen::inRange<size_t>(1, 8);
  const int64_t m = static_cast<int64_t>(p) + *rc::gen::inRange(0, 20);
  const auto f =
      *rc::gen::container<std::vector<double>>(p, rc::gen::exec([] { return draw_seconds(); }));
  const auto b =
      *rc::gen::container<std::vector<double>>(p, rc::gen::exec([] { return draw_seconds(); }));
  const auto sum = [](const std::vector<double>& x) {
    return std::accumulate(x.begin(), x.end(), 0.0);
  };
  const auto most = [](const std::vector<double>& x) {
    return *std::max_element(x.begin(), x.end());
  };
  const double gpipe = makespan(ScheduleKind::kGPipe, static_cast<int>(p), m, uneven(f, b));
  RC_ASSERT(gpipe == sum(f) + sum(b) + static_cast<double>(m - 1) * (most(f) + most(b)));
  const double one_one = makespan(ScheduleKind::k1F1B, static_cast<int>(p), m, uneven(f, b));
  double before = 0;
  for (size_t r = 0; r < p; ++r) {
    RC_ASSERT(one_one >= static_cast<double>(m) * (f[r] + b[r]) + before);
    before += f[r] + b[r];
  }
}

// The order of messages alone cannot make a schedule faster than its path through the last stage.
RC_GTEST_PROP(RankSchedule, MessagesTakeTheirTime, ()) {
  const int p = *rc::gen::inRange(2, 8);
  const int64_t m = p + *rc::gen::inRange(0, 20);
  const double f = draw_seconds();
  const double b = draw_seconds();
  const int64_t c = *rc::gen::inRange(0, 12);
  for (const ScheduleKind kind : {ScheduleKind::kGPipe, ScheduleKind::k1F1B}) {
    const Pipeline pipeline{kind, p, m, 1, equal_stages(f, b), c};
    const double seconds = run(pipeline).step_seconds;
    const double path = (p - 1) * (f + b + 2 * static_cast<double>(c));
    RC_ASSERT(seconds >= static_cast<double>(m) * (f + b) + path);
    // The letter of the streams' order is no faster, nor are shared ports.
    SimulateOptions options;
    options.overlap_messages = false;
    RC_ASSERT(run(pipeline, options).step_seconds >= seconds);
    options.overlap_messages = true;
    options.contention = true;
    RC_ASSERT(run(pipeline, options).step_seconds >= seconds - 1e-9);
    // GPipe hides all messages but those of the path, when they are shorter than the work.
    if (kind == ScheduleKind::kGPipe && static_cast<double>(c) <= std::min(f, b)) {
      RC_ASSERT(seconds == static_cast<double>(m) * (f + b) + path);
    }
  }
}

// Warm-up, steady and cool-down as bodies that repeat: the same run.
RC_GTEST_PROP(RankSchedule, FoldedIsTheSame, ()) {
  const int p = *rc::gen::inRange(1, 8);
  const int64_t m = *rc::gen::inRange(1, 20);
  const int64_t c = *rc::gen::inRange(0, 4);
  const auto times = *rc::gen::container<std::vector<double>>(
      static_cast<size_t>(2 * p), rc::gen::exec([] { return draw_seconds(); }));
  const Pipeline pipeline{
      ScheduleKind::k1F1B,
      p,
      m,
      1,
      [&](int stage, SlotKind kind) {
        return times[static_cast<size_t>(2 * stage) + (kind == SlotKind::kForward ? 0 : 1)];
      },
      c};
  const SimulatedRun flat = run(pipeline);
  const SimulatedRun folded = simulate_ranks(folded_1f1b_programs(pipeline), Cluster{},
                                             FlopsAreSeconds(), BytesAreSeconds());
  RC_ASSERT(folded.step_seconds == flat.step_seconds);
  for (size_t s = 0; s < flat.stages.size(); ++s) {
    RC_ASSERT(folded.stages[s].finish_seconds == flat.stages[s].finish_seconds);
    RC_ASSERT(folded.stages[s].busy_seconds == flat.stages[s].busy_seconds);
    RC_ASSERT(folded.stages[s].exposed_seconds == flat.stages[s].exposed_seconds);
    RC_ASSERT(folded.stages[s].pass_seconds == flat.stages[s].pass_seconds);
  }
}

// Any schedule, any times: no stage ends before its work is done, its time is all accounted for,
// and more work anywhere makes no step shorter.
RC_GTEST_PROP(RankSchedule, BoundsOfAnySchedule, ()) {
  const auto kind = static_cast<ScheduleKind>(*rc::gen::inRange(0, kNumScheduleKinds));
  const int p = *rc::gen::inRange(1, 7);
  const int64_t m = int64_t{p} * *rc::gen::inRange(1, 5);
  const int v = kind == ScheduleKind::kInterleaved ? *rc::gen::inRange(1, 4) : 1;
  const int64_t c = *rc::gen::inRange(0, 6);
  auto times = *rc::gen::container<std::vector<double>>(
      static_cast<size_t>(4 * p), rc::gen::exec([] { return draw_seconds(); }));
  const Pipeline pipeline{kind,
                          p,
                          m,
                          v,
                          [&](int stage, SlotKind slot) {
                            return times[static_cast<size_t>(4 * stage + static_cast<int>(slot))];
                          },
                          c};
  const SimulatedRun before = run(pipeline);
  for (const SimulatedStage& stage : before.stages) {
    RC_ASSERT(stage.busy_seconds == stage.compute_seconds);
    RC_ASSERT(before.step_seconds >= stage.compute_seconds);
    RC_ASSERT(stage.busy_seconds + stage.exposed_seconds + stage.bubble_seconds ==
              before.step_seconds);
    RC_ASSERT(stage.pass_seconds[static_cast<size_t>(Pass::kForward)] +
                  stage.pass_seconds[static_cast<size_t>(Pass::kBackward)] ==
              stage.compute_seconds + stage.communication_seconds);
    RC_ASSERT(c > 0 || stage.exposed_seconds == 0);
  }
  times[*rc::gen::inRange<size_t>(0, times.size())] += draw_seconds();
  RC_ASSERT(run(pipeline).step_seconds >= before.step_seconds);
}

// 16 stages and 512 micro-batches: small enough work to be part of a search.
TEST(RankSchedule, LargePipelinesAreFolded) {
  const Pipeline pipeline{ScheduleKind::k1F1B, 16, 512, 1, equal_stages(1, 2), 0};
  const SimulatedRun result = simulate_ranks(folded_1f1b_programs(pipeline), Cluster{},
                                             FlopsAreSeconds(), BytesAreSeconds());
  EXPECT_EQ(result.step_seconds, (512 + 15) * 3);
  EXPECT_LE(result.num_events, result.num_instructions);
  EXPECT_NEAR(result.bubble_fraction(), 15.0 / 527, 1e-12);
}

}  // namespace
}  // namespace plimsoll
