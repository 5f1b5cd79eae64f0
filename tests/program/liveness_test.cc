#include "program/liveness.h"

#include "program/builder.h"
#include "program/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

int add(ProgramBuilder& builder, const std::string& name, int copies = 1) {
  const int b = builder.add_buffer(name, Category::kActivations, DType::kF32, {4});
  builder.buffer(b).copies = copies;
  return b;
}

const std::vector<Interval>& live(const Liveness& liveness, int buffer, int64_t copy = 0) {
  return liveness.phases[0].live[static_cast<size_t>(liveness.copy_id(buffer, copy))];
}

//            0     1     2     3
//   x        def   use         def (never read)
//   y              def   use
TEST(Liveness, ValueLivesFromDefinitionToLastUse) {
  ProgramBuilder builder;
  const int x = add(builder, "x");
  const int y = add(builder, "y");
  builder.phase("step").segment("all");
  builder.emit("fill", {}, {x});
  builder.emit("relu", {x}, {y});
  builder.emit("sum", {y}, {});
  builder.emit("fill", {}, {x});
  const Liveness liveness = compute_liveness(builder.program());
  EXPECT_THAT(live(liveness, x), ElementsAre(Interval{0, 2}, Interval{3, 4}));
  EXPECT_THAT(live(liveness, y), ElementsAre(Interval{1, 3}));
}

TEST(Liveness, AccumulateReadsAndWrites) {
  ProgramBuilder builder;
  const int x = add(builder, "x");
  builder.phase("step").segment("all");
  builder.emit("fill", {}, {x});
  builder.emit("other", {}, {});
  builder.emit("add", {}, {x}).accumulate = 1;
  builder.emit("other", {}, {});
  const Liveness liveness = compute_liveness(builder.program());
  EXPECT_THAT(live(liveness, x), ElementsAre(Interval{0, 3}));
  EXPECT_THAT(liveness.phases[0].undefined_reads, IsEmpty());
}

TEST(Liveness, InPlaceChainIsOneInterval) {
  ProgramBuilder builder;
  const int x = add(builder, "x");
  builder.phase("step").segment("all");
  builder.emit("fill", {}, {x});
  builder.emit("relu", {x}, {x});
  builder.emit("sum", {x}, {});
  EXPECT_THAT(live(compute_liveness(builder.program()), x), ElementsAre(Interval{0, 3}));
}

TEST(Liveness, ReadWithoutDefinitionIsReportedAndLivesFromTheStart) {
  ProgramBuilder builder;
  const int x = add(builder, "x");
  builder.phase("step").segment("all");
  builder.emit("other", {}, {});
  builder.emit("sum", {x}, {});
  const Liveness liveness = compute_liveness(builder.program());
  EXPECT_THAT(live(liveness, x), ElementsAre(Interval{0, 2}));
  ASSERT_EQ(liveness.phases[0].undefined_reads.size(), 1U);
  EXPECT_EQ(liveness.phases[0].undefined_reads[0].position, 1);
}

TEST(Liveness, PersistentIsLiveEverywhereInEveryPhase) {
  ProgramBuilder builder;
  const int w = add(builder, "w");
  builder.buffer(w).persistent = true;
  builder.phase("initialise").segment("all");
  builder.emit("initialise", {}, {w});
  builder.phase("step").segment("all", 3);
  builder.emit("other", {}, {});
  builder.emit("other", {}, {});
  const Liveness liveness = compute_liveness(builder.program());
  EXPECT_THAT(liveness.phases[0].live[0], ElementsAre(Interval{0, 1}));
  EXPECT_THAT(liveness.phases[1].live[0], ElementsAre(Interval{0, 6}));
}

// Two copies and a use one micro-batch later: copies alternate, and each lives across an iteration.
//
//   iteration       0         1         2
//   copy 0      def            use  def            …
//   copy 1               def              use …
TEST(Liveness, CopiesAlternateByMicrobatch) {
  ProgramBuilder builder;
  const int x = add(builder, "x", 2);
  builder.phase("step").segment("begin");
  builder.emit("fill", {}, {x}).microbatch = 1;
  builder.segment("steady", 3, 0);
  builder.emit("forward", {}, {x});
  builder.emit("backward", {x}, {}).microbatch = 1;  // the copy that the iteration before defined
  const Liveness liveness = compute_liveness(builder.program());
  // Positions: 0 fill(1); 1 def 0, 2 use 1; 3 def 1, 4 use 0; 5 def 0, 6 use 1.
  EXPECT_THAT(live(liveness, x, 0), ElementsAre(Interval{1, 6}));
  EXPECT_THAT(live(liveness, x, 1), ElementsAre(Interval{0, 7}));
}

TEST(Liveness, LongSegmentIsCutToThreePeriodsAndTheRest) {
  ProgramBuilder builder;
  const int x = add(builder, "x", 4);
  builder.phase("step").segment("steady", 1'000'000'003, 0);
  builder.emit("forward", {}, {x});
  builder.segment("after");
  builder.emit("backward", {x}, {}).microbatch = 2;  // copy 2 = micro-batch 1000000002 modulo 4
  const StepProgram& program = builder.program();
  const PhaseExpansion expansion(program, program.phases[0]);
  EXPECT_EQ(expansion.segments()[0].period, 4);
  EXPECT_EQ(expansion.segments()[0].iterations, 12 + 3);
  EXPECT_EQ(expansion.locate(0).iteration, 0);
  EXPECT_EQ(expansion.locate(10).iteration, 10);
  EXPECT_EQ(expansion.locate(11).iteration, 999'999'999);
  EXPECT_EQ(expansion.locate(14).iteration, 1'000'000'002);
  EXPECT_EQ(expansion.locate(14).kind, IterationKind::kLast);
  EXPECT_EQ(expansion.locate(15).kind, IterationKind::kOnly);
  EXPECT_THAT(live(compute_liveness(program), x, 2).back(), (Interval{14, 16}));
}

TEST(Liveness, PeriodIsThatOfTheStride) {
  ProgramBuilder builder;
  const int x = add(builder, "x", 6);
  builder.phase("step").segment("steady", 100, 0, 4);
  builder.emit("forward", {}, {x});
  const PhaseExpansion expansion(builder.program(), builder.program().phases[0]);
  EXPECT_EQ(expansion.segments()[0].period, 3);
}

TEST(Liveness, AbsurdPeriodIsRefused) {
  ProgramBuilder builder;
  builder.phase("step").segment("steady", int64_t{1} << 60);
  for (const int copies : {65521, 65519, 65497}) {
    builder.emit("forward", {}, {add(builder, "x" + std::to_string(copies), copies)});
  }
  EXPECT_THROW((void)compute_liveness(builder.program()), Error);
}

//   compute   0: def x      1: use x                    3: def z
//   copy                                  2: use x
// Nothing waits for 2, so x's bytes are not free before the iteration ends.
TEST(Liveness, UseOnAnotherStreamHoldsTheBytesUntilItIsWaitedFor) {
  ProgramBuilder builder;
  const int x = add(builder, "x");
  const int z = add(builder, "z");
  builder.phase("step").segment("all");
  builder.emit("fill", {}, {x});
  builder.emit("sum", {x}, {});
  Instruction& send = builder.emit("send", {x}, {});
  send.stream = Stream::kCopy;
  send.waits = {0};
  builder.emit("fill", {}, {z});
  builder.emit("other", {}, {});
  StepProgram program = builder.program();
  EXPECT_THAT(live(compute_liveness(program), x), ElementsAre(Interval{0, 5}));

  program.phases[0].segments[0].body[3].waits = {2};
  EXPECT_THAT(live(compute_liveness(program), x), ElementsAre(Interval{0, 3}));
}

TEST(BodyOrder, FollowsChainsOfWaits) {
  ProgramBuilder builder;
  builder.phase("step").segment("all");
  const auto emit = [&](Stream stream, std::vector<int> waits) {
    Instruction& instruction = builder.emit("op", {}, {});
    instruction.stream = stream;
    instruction.waits = std::move(waits);
  };
  emit(Stream::kCompute, {});        // 0
  emit(Stream::kDataParallel, {0});  // 1
  emit(Stream::kCopy, {1});          // 2
  emit(Stream::kCompute, {});        // 3: ordered after 0 alone
  emit(Stream::kCompute, {2});       // 4: after all
  const BodyOrder order(builder.program().phases[0].segments[0].body);
  EXPECT_TRUE(order.ordered(0, 2));
  EXPECT_TRUE(order.ordered(0, 3));
  EXPECT_FALSE(order.ordered(1, 3));
  EXPECT_FALSE(order.ordered(2, 3));
  EXPECT_TRUE(order.ordered(1, 4));
  EXPECT_EQ(order.release(0), 1);
  EXPECT_EQ(order.release(1), 4);
  EXPECT_EQ(order.release(2), 4);
  EXPECT_EQ(order.release(3), 4);
  EXPECT_EQ(order.release(4), 5);
}

// Against the transitive closure, written plainly.
RC_GTEST_PROP(BodyOrderProperty, AgreesWithTheTransitiveClosure, ()) {
  const int size = *rc::gen::inRange(0, 25);
  std::vector<Instruction> body(static_cast<size_t>(size));
  std::vector<std::vector<bool>> before(body.size(), std::vector<bool>(body.size(), false));
  for (size_t b = 0; b < body.size(); ++b) {
    body[b].stream = static_cast<Stream>(*rc::gen::inRange(0, kNumStreams));
    before[b][b] = true;
    for (size_t a = 0; a < b; ++a) {
      const bool same = body[a].stream == body[b].stream;
      const bool waits = !same && *rc::gen::inRange(0, 6) == 0;
      if (waits) body[b].waits.push_back(static_cast<int>(a));
      if (!same && !waits) continue;
      for (size_t c = 0; c <= a; ++c) before[c][b] = before[c][b] || before[c][a];
    }
  }
  const BodyOrder order(body);
  for (size_t a = 0; a < body.size(); ++a) {
    size_t release = a + 1;
    for (size_t b = a; b < body.size(); ++b) {
      RC_ASSERT(order.ordered(static_cast<int64_t>(a), static_cast<int64_t>(b)) == before[a][b]);
      if (!before[a][b]) release = b + 1;
    }
    RC_ASSERT(order.release(static_cast<int64_t>(a)) == static_cast<int64_t>(release));
  }
}

}  // namespace
}  // namespace plimsoll
