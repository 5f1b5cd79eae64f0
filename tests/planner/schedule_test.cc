#include "planner/schedule.h"

#include "tests/costmodel/expect_error.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>
#include <tuple>

namespace plimsoll {
namespace {

// "F0 F1 B0 F2 …", with the chunk behind a point where it is not 0.
std::string text(const std::vector<ScheduleSlot>& order) {
  std::string out;
  for (const ScheduleSlot& slot : order) {
    if (!out.empty()) out += ' ';
    out += "FBIW"[static_cast<int>(slot.kind)] + std::to_string(slot.microbatch);
    if (slot.chunk > 0) out += "." + std::to_string(slot.chunk);
  }
  return out;
}

std::vector<int64_t> peaks(ScheduleKind kind, int stages, int64_t microbatches, int chunks = 1) {
  std::vector<int64_t> result;
  for (int s = 0; s < stages; ++s) {
    result.push_back(peak_in_flight(schedule_order(kind, s, stages, microbatches, chunks)));
  }
  return result;
}

TEST(Schedule, NamesAreParsedBack) {
  for (int i = 0; i < kNumScheduleKinds; ++i) {
    const auto kind = static_cast<ScheduleKind>(i);
    EXPECT_EQ(parse_schedule_kind(schedule_kind_name(kind)), kind);
  }
  EXPECT_EQ(parse_schedule_kind("zb"), std::nullopt);
  EXPECT_TRUE(splits_backward(ScheduleKind::kZeroBubbleH2));
  EXPECT_FALSE(splits_backward(ScheduleKind::kInterleaved));
}

TEST(Schedule, OrdersOfSmallPipelines) {
  EXPECT_EQ(text(schedule_order(ScheduleKind::kGPipe, 1, 2, 3)), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(text(schedule_order(ScheduleKind::k1F1B, 0, 3, 4)), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(text(schedule_order(ScheduleKind::k1F1B, 2, 3, 4)), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(text(schedule_order(ScheduleKind::kZeroBubbleH1, 1, 2, 3)),
            "F0 I0 F1 I1 W0 F2 I2 W1 W2");
  EXPECT_EQ(text(schedule_order(ScheduleKind::kZeroBubbleH2, 0, 2, 4)),
            "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
  EXPECT_EQ(text(schedule_order(ScheduleKind::kInterleaved, 1, 2, 4, 2)),
            "F0 F1 F0.1 B0.1 F1.1 B1.1 F2 B0 F3 B1 F2.1 B2.1 F3.1 B3.1 B2 B3");
  // One group of micro-batches: all forwards first.
  EXPECT_EQ(text(schedule_order(ScheduleKind::kInterleaved, 1, 2, 2, 2)),
            "F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1");
  EXPECT_EQ(text(schedule_order(ScheduleKind::k1F1B, 0, 8, 2)), "F0 F1 B0 B1");
  EXPECT_EQ(text(schedule_order(ScheduleKind::k1F1B, 0, 1, 0)), "");
}

TEST(Schedule, PeaksOfKnownPipelines) {
  using Peaks = std::vector<int64_t>;
  EXPECT_EQ(peaks(ScheduleKind::kGPipe, 4, 8), (Peaks{8, 8, 8, 8}));
  EXPECT_EQ(peaks(ScheduleKind::k1F1B, 4, 8), (Peaks{4, 3, 2, 1}));
  EXPECT_EQ(peaks(ScheduleKind::kInterleaved, 4, 8, 2), (Peaks{11, 9, 7, 5}));
  EXPECT_EQ(peaks(ScheduleKind::kZeroBubbleH1, 4, 8), (Peaks{4, 4, 4, 4}));
  EXPECT_EQ(peaks(ScheduleKind::kZeroBubbleH2, 4, 8), (Peaks{7, 7, 7, 7}));
  EXPECT_EQ(peaks(ScheduleKind::kZeroBubbleH1, 8, 24), Peaks(8, 8));
  EXPECT_EQ(peaks(ScheduleKind::kZeroBubbleH2, 8, 24), Peaks(8, 15));
}

RC_GTEST_PROP(Schedule, PeaksAreTheClosedForms, ()) {
  const int p = *rc::gen::inRange(1, 17);
  const int64_t groups = *rc::gen::inRange(1, 6);
  const int v = *rc::gen::inRange(2, 5);
  const int64_t any = *rc::gen::inRange(1, 60);
  const int64_t enough = 2 * p - 1 + any;
  const auto gpipe = peaks(ScheduleKind::kGPipe, p, any);
  const auto one_one = peaks(ScheduleKind::k1F1B, p, any);
  const auto h1 = peaks(ScheduleKind::kZeroBubbleH1, p, enough);
  const auto h2 = peaks(ScheduleKind::kZeroBubbleH2, p, enough);
  const auto interleaved = peaks(ScheduleKind::kInterleaved, p, groups * p, v);
  for (int r = 0; r < p; ++r) {
    const auto s = static_cast<size_t>(r);
    RC_ASSERT(gpipe[s] == any);
    RC_ASSERT(one_one[s] == std::min<int64_t>(any, p - r));
    RC_ASSERT(h1[s] == p);
    RC_ASSERT(h2[s] == 2 * p - 1);
    const int64_t all = groups * p * v;
    RC_ASSERT(interleaved[s] ==
              (groups == 1 ? all : std::min<int64_t>(2 * (p - 1 - r) + (v - 1) * p + 1, all)));
  }
}

// Each micro-batch of each chunk is worked on once a kind, forward before backward (before the
// weights' half), in ascending order.
RC_GTEST_PROP(Schedule, EverySlotIsThereOnceAndInOrder, ()) {
  const auto kind = static_cast<ScheduleKind>(*rc::gen::inRange(0, kNumScheduleKinds));
  const int p = *rc::gen::inRange(1, 9);
  const int r = *rc::gen::inRange(0, p);
  const bool interleaved = kind == ScheduleKind::kInterleaved;
  const int64_t m =
      interleaved ? int64_t{p} * *rc::gen::inRange(1, 5) : int64_t{*rc::gen::inRange(1, 30)};
  const int v = interleaved ? *rc::gen::inRange(1, 5) : 1;
  const auto order = schedule_order(kind, r, p, m, v);
  const size_t kinds = splits_backward(kind) ? 3 : 2;
  RC_ASSERT(order.size() == static_cast<size_t>(m * v) * kinds);
  std::map<std::pair<SlotKind, int>, int64_t> next;  // micro-batch of each kind and chunk
  for (const ScheduleSlot& slot : order) {
    RC_ASSERT(slot.microbatch == (next[{slot.kind, slot.chunk}]++));
    if (slot.kind == SlotKind::kForward) continue;
    const SlotKind before =
        slot.kind == SlotKind::kBackwardWeight ? SlotKind::kBackwardInput : SlotKind::kForward;
    RC_ASSERT(slot.microbatch < (next[{before, slot.chunk}]));
  }
}

TEST(Schedule, InputsFollowTheModelAndComeBack) {
  const auto input = [](SlotKind kind, int chunk, int stage) {
    return schedule_input({kind, 5, chunk}, stage, 3, 2);
  };
  EXPECT_FALSE(input(SlotKind::kForward, 0, 0));
  EXPECT_EQ(input(SlotKind::kForward, 1, 0)->stage, 2);
  EXPECT_EQ(input(SlotKind::kForward, 1, 0)->slot, (ScheduleSlot{SlotKind::kForward, 5, 0}));
  EXPECT_EQ(input(SlotKind::kForward, 1, 2)->stage, 1);
  EXPECT_FALSE(input(SlotKind::kBackward, 1, 2));
  EXPECT_EQ(input(SlotKind::kBackward, 0, 2)->stage, 0);
  EXPECT_EQ(input(SlotKind::kBackward, 0, 2)->slot, (ScheduleSlot{SlotKind::kBackward, 5, 1}));
  EXPECT_EQ(input(SlotKind::kBackwardInput, 0, 1)->stage, 2);
  EXPECT_FALSE(input(SlotKind::kBackwardWeight, 0, 1));
}

TEST(Schedule, WhatCannotBeInterleavedIsAnError) {
  expect_error([] { (void)schedule_order(ScheduleKind::kInterleaved, 0, 4, 6, 2); },
               ExitCode::kBadInput, "multiple of 4 micro-batches, not 6");
  expect_error([] { (void)schedule_order(ScheduleKind::kGPipe, 0, 4, 8, 2); }, ExitCode::kBadInput,
               "gpipe has one chunk a stage, not 2");
}

}  // namespace
}  // namespace plimsoll
