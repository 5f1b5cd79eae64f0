#include "program/timeline.h"

#include "program/builder.h"
#include "program/verify.h"
#include "tests/program/random_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;

int64_t of(const TimelinePoint& point, Category category) {
  return point.by_category[static_cast<size_t>(category)];
}

// One layer forward and backward, two micro-batches, 256-byte alignment:
//
//   instruction     0 load  1 forward  2 backward
//   tokens (input)  ###     ###        ###
//   x (act)                 ###        ###
//   ws (workspace)                     ###
//   w, g            ### (persistent)
TEST(Timeline, SumsReservedBytesByCategoryAndFindsThePeak) {
  ProgramBuilder builder;
  const int w = builder.add_buffer("w", Category::kParameters, DType::kF32, {100});  // 400 -> 512
  builder.buffer(w).persistent = true;
  const int g = builder.add_buffer("g", Category::kGradients, DType::kF32, {64});       // 256
  const int tokens = builder.add_buffer("tokens", Category::kInput, DType::kI32, {1});  // 256
  const int x = builder.add_buffer("x", Category::kActivations, DType::kF32, {65});     // 512
  const int ws = builder.add_buffer("ws", Category::kWorkspace, DType::kU8, {1025});    // 1280
  const int stash = builder.add_buffer("stash", Category::kActivations, DType::kU8, {256});
  builder.buffer(stash).place = Place::kHost;
  builder.phase("step").segment("begin");
  builder.emit("fill", {}, {g});
  builder.segment("micro-batches", 2);
  builder.emit("load_batch", {}, {tokens});
  builder.emit("forward", {tokens, w}, {x});
  builder.emit("backward", {tokens, w, x}, {g, ws, stash}).accumulate = 1;
  builder.segment("update");
  builder.emit("sgd", {w, g}, {w}).accumulate = 1;

  const Liveness liveness = compute_liveness(builder.program());
  const MemoryTimeline timeline = compute_timeline(builder.program(), liveness);
  ASSERT_EQ(timeline.phases.size(), 1U);
  const TimelinePoint& peak = timeline.phases[0].peak;
  EXPECT_EQ(timeline.live_peak_bytes(), 512 + 256 + 256 + 512 + 1280);
  EXPECT_EQ(peak.folded, (FoldedPosition{1, 0, 2, IterationKind::kFirst}));
  EXPECT_EQ(of(peak, Category::kParameters), 512);
  EXPECT_EQ(of(peak, Category::kGradients), 256);
  EXPECT_EQ(of(peak, Category::kInput), 256);
  EXPECT_EQ(of(peak, Category::kActivations), 512);
  EXPECT_EQ(of(peak, Category::kWorkspace), 1280);
  EXPECT_EQ(timeline.host_peak_bytes(), 256);
  EXPECT_EQ(timeline.phases[0].host_peak.folded.index, 2);
  // begin, then first and last iteration of three instructions, then update.
  ASSERT_EQ(timeline.phases[0].points.size(), 1U + 3 + 3 + 1);
  EXPECT_EQ(timeline.phases[0].points[1].live_bytes, 512 + 256 + 256);
  EXPECT_EQ(timeline.phases[0].points.back().live_bytes, 512 + 256);

  EXPECT_THAT(live_at(builder.program(), liveness, 0, 2, Place::kDevice),
              ElementsAre(LiveCopy{w, 0, 512}, LiveCopy{g, 0, 256}, LiveCopy{tokens, 0, 256},
                          LiveCopy{x, 0, 512}));
  EXPECT_THAT(live_at(builder.program(), liveness, 0, 3, Place::kHost),
              ElementsAre(LiveCopy{stash, 0, 256}));
}

TEST(Timeline, PhaseWithoutInstructionsHasThePersistentBuffers) {
  ProgramBuilder builder;
  const int w = builder.add_buffer("w", Category::kParameters, DType::kF32, {64});
  builder.buffer(w).persistent = true;
  builder.phase("idle");
  const MemoryTimeline timeline = compute_timeline(builder.program());
  EXPECT_EQ(timeline.live_peak_bytes(), 256);
  EXPECT_EQ(timeline.phases[0].peak.position, -1);
}

TEST(Timeline, OverallPeakIsTheLargestPhase) {
  ProgramBuilder builder;
  const int a = builder.add_buffer("a", Category::kActivations, DType::kU8, {100});
  const int b = builder.add_buffer("b", Category::kActivations, DType::kU8, {1000});
  builder.phase("evaluate").segment("all");
  builder.emit("fill", {}, {a});
  builder.phase("step").segment("all");
  builder.emit("fill", {}, {b});
  const MemoryTimeline timeline = compute_timeline(builder.program());
  EXPECT_EQ(timeline.peak_phase, 1);
  EXPECT_EQ(timeline.phases[0].peak.live_bytes, 256);
  EXPECT_EQ(timeline.live_peak_bytes(), 1024);
}

// The list of live buffers, the category split and the total are three views of one thing.
RC_GTEST_PROP(TimelineProperty, ViewsAgreeAtEveryPoint, ()) {
  const StepProgram program = testing::random_program();
  const Liveness liveness = compute_liveness(program);
  const MemoryTimeline timeline = compute_timeline(program, liveness);
  int64_t highest = 0;
  for (size_t p = 0; p < timeline.phases.size(); ++p) {
    for (const TimelinePoint& point : timeline.phases[p].points) {
      CategoryBytes split{};
      int64_t total = 0;
      for (const LiveCopy& copy :
           live_at(program, liveness, static_cast<int>(p), point.position, Place::kDevice)) {
        const Buffer& buffer = program.buffers[static_cast<size_t>(copy.buffer)];
        split[static_cast<size_t>(buffer.category)] += copy.reserved_bytes;
        total += copy.reserved_bytes;
      }
      RC_ASSERT(split == point.by_category);
      RC_ASSERT(total == point.live_bytes);
      highest = std::max(highest, total);
    }
  }
  if (!timeline.phases.back().points.empty()) RC_ASSERT(highest <= timeline.live_peak_bytes());
}

}  // namespace
}  // namespace plimsoll
