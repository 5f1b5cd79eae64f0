#include "costmodel/rank_simulator.h"

#include "tests/costmodel/expect_error.h"
#include "tests/costmodel/pipeline_programs.h"
#include "tests/costmodel/unit_time.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

namespace plimsoll {
namespace {

// Stages whose programs are written by hand. Buffer k has k bytes.
class Stages {
 public:
  explicit Stages(int count, int dp_size = 2) : builders_(static_cast<size_t>(count)) {
    for (int s = 0; s < count; ++s) {
      ProgramBuilder& builder = at(s);
      builder.header().coordinates.pp = s;
      builder.header().coordinates.pp_size = count;
      builder.header().coordinates.dp_size = dp_size;
      for (int64_t k = 0; k <= 20; ++k) {
        builder.add_buffer("b" + std::to_string(k), Category::kCommunication, DType::kU8, {k});
      }
      builder.phase("step");
    }
  }

  ProgramBuilder& at(int stage) { return builders_[static_cast<size_t>(stage)]; }

  void segment(int64_t repeat = 1) {
    for (ProgramBuilder& builder : builders_) builder.segment("body", repeat);
  }
  int compute(int stage, double seconds, std::vector<int> waits = {}) {
    Instruction& instruction = at(stage).emit("linear", {}, {});
    instruction.flops = seconds;
    instruction.waits = std::move(waits);
    return at(stage).last();
  }
  int message(int stage, const char* op, const char* peer, int bytes, std::vector<int> waits = {},
              const char* tag = "t") {
    Instruction& instruction =
        at(stage).emit(op, {bytes}, {}, {{"peer", std::string(peer)}, {"tag", std::string(tag)}});
    if (std::string(op) == "receive") instruction.inputs.swap(instruction.outputs);
    instruction.stream = Stream::kPipeline;
    instruction.waits = std::move(waits);
    return at(stage).last();
  }
  int all_reduce(int stage, const char* group, int bytes, Stream stream,
                 std::vector<int> waits = {}) {
    Instruction& instruction =
        at(stage).emit("all_reduce", {}, {bytes}, {{"group", std::string(group)}});
    instruction.stream = stream;
    instruction.pass = Pass::kReduce;
    instruction.waits = std::move(waits);
    return at(stage).last();
  }

  [[nodiscard]] std::vector<StepProgram> programs() const {
    std::vector<StepProgram> programs;
    for (const ProgramBuilder& builder : builders_) programs.push_back(builder.program());
    return programs;
  }
  [[nodiscard]] SimulatedRun run(const SimulateOptions& options = {},
                                 const Cluster& cluster = {}) const {
    return simulate_ranks(programs(), cluster, FlopsAreSeconds(), BytesAreSeconds(), options);
  }

 private:
  std::vector<ProgramBuilder> builders_;
};

TEST(RankSimulator, AReceiveEndsWhenItsMessageHasArrived) {
  Stages stages(2);
  stages.segment();
  stages.message(0, "send", "next", 5, {stages.compute(0, 2)});
  stages.compute(1, 3, {stages.message(1, "receive", "previous", 5)});
  const SimulatedRun run = stages.run();
  EXPECT_EQ(run.step_seconds, 2 + 5 + 3);
  EXPECT_EQ(run.stages[0].finish_seconds, 7);
  EXPECT_EQ(run.stages[0].communication_seconds, 5);
  EXPECT_EQ(run.stages[0].exposed_seconds, 0);  // nobody waits for its end here
  EXPECT_EQ(run.stages[1].exposed_seconds, 5);
  EXPECT_EQ(run.stages[1].bubble_seconds, 2);  // before the message is sent
  EXPECT_EQ(run.stages[1].busy_seconds, 3);
}

TEST(RankSimulator, AnUnclaimedMessageWaits) {
  Stages stages(2);
  stages.segment();
  stages.message(0, "send", "next", 5);
  const int first = stages.compute(1, 9);
  stages.compute(1, 1, {stages.message(1, "receive", "previous", 5, {first})});
  EXPECT_EQ(stages.run().step_seconds, 10);
}

// Compute goes on while sends are under way, also into the next iterations; sends queue up.
TEST(RankSimulator, SendsDoNotHoldUpTheNextIteration) {
  Stages stages(2);
  stages.segment(3);
  stages.message(0, "send", "next", 5, {stages.compute(0, 2)});
  stages.compute(1, 1, {stages.message(1, "receive", "previous", 5)});
  const SimulatedRun run = stages.run();
  EXPECT_EQ(run.stages[0].busy_seconds, 6);
  EXPECT_EQ(run.stages[0].finish_seconds, 2 + 15);
  EXPECT_EQ(run.step_seconds, 2 + 15 + 1);
  SimulateOptions letter;
  letter.overlap_messages = false;
  EXPECT_EQ(stages.run(letter).step_seconds, 3 * (2 + 5) + 1);
}

// With copies for one iteration more, the third iteration waits for the first one's send.
TEST(RankSimulator, SendsLagAsFarAsTheirCopiesLast) {
  Stages stages(2);
  stages.segment(3);
  stages.message(0, "send", "next", 5, {stages.compute(0, 2)});
  stages.message(1, "receive", "previous", 5);
  const auto begins = [&](int64_t lag) {
    SimulateOptions options;
    options.record_events = true;
    options.send_lag = lag;
    std::vector<double> result;
    for (const SimulatedEvent& event : stages.run(options).events) {
      if (event.stage == 0 && event.instruction == 0) result.push_back(event.begin);
    }
    return result;
  };
  EXPECT_EQ(begins(-1), (std::vector<double>{0, 2, 4}));
  EXPECT_EQ(begins(2), (std::vector<double>{0, 2, 4}));
  EXPECT_EQ(begins(1), (std::vector<double>{0, 2, 7}));
  EXPECT_EQ(begins(0), (std::vector<double>{0, 7, 14}));
}

// On the pipeline stream a receive listed after a send does not wait for it.
TEST(RankSimulator, LinksWorkBothWays) {
  Stages stages(2);
  stages.segment();
  stages.message(0, "send", "next", 10);
  stages.compute(0, 1, {stages.message(0, "receive", "next", 3)});
  stages.message(1, "send", "previous", 3);
  stages.message(1, "receive", "previous", 10);
  EXPECT_EQ(stages.run().stages[0].busy_seconds, 1);
  EXPECT_EQ(stages.run().step_seconds, 10);
  SimulateOptions letter;
  letter.overlap_messages = false;
  EXPECT_EQ(stages.run(letter).step_seconds, 11);
}

TEST(RankSimulator, ShortSendsOvertakeOnOtherTagsOnly) {
  Stages stages(2);
  stages.segment();
  stages.message(0, "send", "next", 4, {}, "a");
  stages.message(0, "send", "next", 2, {}, "b");
  stages.message(0, "send", "next", 1, {}, "a");
  // "b" is asked for first; both "a" come in the order of sending.
  stages.compute(1, 1, {stages.message(1, "receive", "previous", 2, {}, "b")});
  stages.message(1, "receive", "previous", 4, {}, "a");
  stages.message(1, "receive", "previous", 1, {}, "a");
  SimulateOptions options;
  options.record_events = true;
  const SimulatedRun run = stages.run(options);
  std::map<std::pair<int, int>, SimulatedEvent> at;
  for (const SimulatedEvent& event : run.events) at[{event.stage, event.instruction}] = event;
  EXPECT_EQ((at[{1, 0}].end), 6);
  EXPECT_EQ((at[{1, 1}].end), 7);
  EXPECT_EQ((at[{1, 2}].end), 6);  // there since 4, but behind "b"
  EXPECT_EQ((at[{1, 0}].message), (at[{0, 1}].message));
  EXPECT_EQ((at[{1, 2}].message), (at[{0, 0}].message));
  EXPECT_EQ((at[{1, 3}].message), (at[{0, 2}].message));
}

// Messages leave the next segment alone, a collective over stages on their stream does not.
TEST(RankSimulator, LaterSegmentsWaitForCollectivesOverStages) {
  for (const char* group : {"pp", "embedding"}) {
    Stages stages(2);
    stages.segment();
    for (int s = 0; s < 2; ++s) stages.all_reduce(s, group, 10, Stream::kPipeline);
    stages.segment(2);
    for (int s = 0; s < 2; ++s) stages.compute(s, 3);
    EXPECT_EQ(stages.run().step_seconds, 10 + 2 * 3) << group;
  }
}

TEST(RankSimulator, CollectivesOverStagesStartWithTheLastMember) {
  Stages stages(3);
  stages.segment(2);
  for (int s = 0; s < 3; ++s) {
    const int work = stages.compute(s, s + 1);
    stages.compute(s, 1, {stages.all_reduce(s, "pp", 10, Stream::kDataParallel, {work})});
  }
  const SimulatedRun run = stages.run();
  EXPECT_EQ(run.step_seconds, 2 * (3 + 10 + 1));
  EXPECT_EQ(run.stages[0].exposed_seconds, 20);
  EXPECT_EQ(run.stages[0].bubble_seconds, 4);
}

TEST(RankSimulator, TheEmbeddingGroupIsTheFirstAndTheLastStage) {
  Stages stages(3);
  stages.segment();
  stages.all_reduce(0, "embedding", 7, Stream::kCompute);
  stages.compute(1, 1);
  stages.all_reduce(2, "embedding", 7, Stream::kCompute, {});
  EXPECT_EQ(stages.run().step_seconds, 7);
  stages.all_reduce(1, "embedding", 7, Stream::kCompute);
  expect_error([&] { (void)stages.run(); }, ExitCode::kBadInput,
               "stage 1 of 3 is no member of group embedding");
}

TEST(RankSimulator, WhatDoesNotMatchIsAnError) {
  Stages unsent(2);
  unsent.segment(4);
  unsent.message(1, "receive", "previous", 5);
  expect_error([&] { (void)unsent.run(); }, ExitCode::kBadInput,
               "stage 0 sends 0 messages 't' to stage 1, which receives 4");
  Stages tags(2);
  tags.segment();
  tags.message(0, "send", "next", 5, {}, "a");
  tags.message(1, "receive", "previous", 5, {}, "b");
  expect_error([&] { (void)tags.run(); }, ExitCode::kBadInput, "messages 'a'");
  Stages odd(2);
  odd.segment();
  odd.message(0, "send", "sideways", 5);
  expect_error([&] { (void)odd.run(); }, ExitCode::kBadInput, "unknown peer 'sideways'");
  Stages lonely(2);
  lonely.segment();
  lonely.all_reduce(1, "pp", 5, Stream::kCompute);
  expect_error([&] { (void)lonely.run(); }, ExitCode::kBadInput,
               "stage 0 has 0 collectives over group pp, stage 1 has 1");
}

TEST(RankSimulator, EndlessProgramsAreErrors) {
  Stages stages(1);
  stages.segment(int64_t{1} << 62);
  for (int i = 0; i < 4; ++i) stages.compute(0, 1);
  EXPECT_THROW((void)stages.run(), Error);
  Stages long_one(1);
  long_one.segment(int64_t{1} << 37);
  long_one.compute(0, 1);
  expect_error([&] { (void)long_one.run(); }, ExitCode::kBadInput, "too much to simulate");
}

TEST(RankSimulator, StagesThatWaitForOneAnotherAreNamed) {
  Stages stages(2);
  stages.segment();
  const int from_next = stages.message(0, "receive", "next", 5, {}, "b");
  stages.message(0, "send", "next", 5, {stages.compute(0, 1, {from_next})}, "f");
  const int from_previous = stages.message(1, "receive", "previous", 5, {}, "f");
  stages.message(1, "send", "previous", 5, {stages.compute(1, 1, {from_previous})}, "b");
  expect_error([&] { (void)stages.run(); }, ExitCode::kBadInput,
               "stage 0 waits for a message 'b' from stage 1 (segment 'body', iteration 0, "
               "instruction 0, receive); stage 1 waits for a message 'f' from stage 0");
}

TEST(RankSimulator, ProgramsThatAreNotTheStagesAreErrors) {
  Stages stages(2);
  stages.segment();
  std::vector<StepProgram> programs = stages.programs();
  const auto run = [&] {
    (void)simulate_ranks(programs, Cluster{}, FlopsAreSeconds(), BytesAreSeconds());
  };
  std::swap(programs[0], programs[1]);
  expect_error(run, ExitCode::kBadInput, "program 0 of 2 is of pipeline stage 1 of 2");
  std::swap(programs[0], programs[1]);
  programs[1].phases[0].name = "other";
  expect_error(run, ExitCode::kBadInput, "stage 1 has no phase 'step'");
  programs.clear();
  expect_error(run, ExitCode::kBadInput, "no program");
  SimulateOptions options;
  options.slow = {1};
  expect_error([&] { (void)stages.run(options); }, ExitCode::kBadInput, "for 2 stages");
}

TEST(RankSimulator, SlowRanksSlowTheirComputation) {
  Stages stages(2);
  stages.segment();
  stages.message(0, "send", "next", 5, {stages.compute(0, 2)});
  stages.compute(1, 3, {stages.message(1, "receive", "previous", 5)});
  SimulateOptions options;
  options.slow = {1, 2};
  EXPECT_EQ(stages.run(options).step_seconds, 2 + 5 + 6);
}

TEST(RankSimulator, JitterIsAFunctionOfItsSeed) {
  const Pipeline pipeline{ScheduleKind::k1F1B, 4, 64, 1, equal_stages(1, 2), 1};
  const std::vector<StepProgram> programs = pipeline_programs(pipeline);
  const auto seconds = [&](double jitter, uint64_t seed) {
    SimulateOptions options;
    options.jitter = jitter;
    options.seed = seed;
    return simulate_ranks(programs, Cluster{}, FlopsAreSeconds(), BytesAreSeconds(), options)
        .step_seconds;
  };
  EXPECT_EQ(seconds(0.1, 1), seconds(0.1, 1));
  EXPECT_NE(seconds(0.1, 1), seconds(0.1, 2));
  EXPECT_EQ(seconds(0, 1), seconds(0, 2));
  // Mean 1, so the work stays; waiting for the slower neighbour adds to it.
  EXPECT_NEAR(seconds(0.02, 3) / seconds(0, 3), 1, 0.1);
}

// Stage 1 sends both ways at once: its port is shared, then the longer message has it alone.
TEST(RankSimulator, TransfersShareAPort) {
  Stages stages(3);
  stages.segment();
  stages.message(0, "receive", "next", 4);
  stages.message(1, "send", "previous", 4);
  stages.all_reduce(1, "dp", 10, Stream::kDataParallel);
  stages.compute(2, 1);
  Cluster node;
  node.devices_per_node = 6;
  EXPECT_EQ(stages.run({}, node).step_seconds, 10);
  SimulateOptions options;
  options.contention = true;
  const SimulatedRun run = stages.run(options, node);
  EXPECT_EQ(run.step_seconds, 14);             // shared until 8, then 6 s alone
  EXPECT_EQ(run.stages[0].finish_seconds, 8);  // 4 s at half the rate
  // With one node a stage, messages leave by the network port, and the reduction does not.
  node.devices_per_node = 2;
  node.nodes = 3;
  EXPECT_EQ(stages.run(options, node).step_seconds, 10);
}

// Four devices on two cores: each has half a core while all compute, and up to one while others
// wait. Times are of half a core.
TEST(RankSimulator, DevicesShareCores) {
  Stages stages(4, 1);
  stages.segment();
  for (int s = 0; s < 4; ++s) stages.compute(s, s < 3 ? 2 : 8);
  Cluster host;
  host.devices_per_node = 4;
  host.device.shares_cores = true;
  EXPECT_EQ(stages.run({}, host).step_seconds, 8);
  SimulateOptions options;
  options.host_cores = 2;
  // All four until 2, then the last alone on a whole core: 6 s of work in 3.
  EXPECT_EQ(stages.run(options, host).step_seconds, 5);
  options.host_cores = 4;  // a core each: nothing to share
  EXPECT_EQ(stages.run(options, host).step_seconds, 8);
  host.device.shares_cores = false;
  options.host_cores = 2;
  EXPECT_EQ(stages.run(options, host).step_seconds, 8);
}

// A body of random instructions on all streams but the pipeline's.
std::vector<Segment> random_segments() {
  std::vector<Segment> segments(*rc::gen::inRange<size_t>(0, 4));
  for (Segment& segment : segments) {
    segment.name = "body";
    segment.repeat = *rc::gen::inRange(0, 5);
    const int size = *rc::gen::inRange(0, 12);
    for (int i = 0; i < size; ++i) {
      Instruction instruction;
      instruction.op = *rc::gen::element<std::string>("linear", "all_reduce", "all_gather");
      const bool compute = instruction.op == "linear";
      instruction.flops = *rc::gen::inRange(0, 6);
      instruction.outputs = {*rc::gen::inRange(0, 6)};
      if (!compute) {
        instruction.stream =
            *rc::gen::element(Stream::kCompute, Stream::kTensorParallel, Stream::kDataParallel);
      }
      instruction.pass = *rc::gen::element(Pass::kForward, Pass::kBackward, Pass::kReduce);
      for (int w = 0; w < i; ++w) {
        if (*rc::gen::inRange(0, 4) == 0) instruction.waits.push_back(w);
      }
      segment.body.push_back(std::move(instruction));
    }
  }
  return segments;
}

// One stage: what the simulator of one rank says, also when each instruction is kept apart.
RC_GTEST_PROP(RankSimulator, OneStageIsTheOtherSimulator, ()) {
  Stages stages(1);
  std::vector<StepProgram> programs = stages.programs();
  programs[0].phases[0].segments = random_segments();
  const SimulatedStep step = simulate(programs[0], Cluster{}, FlopsAreSeconds(), BytesAreSeconds());
  for (const bool record : {false, true}) {
    SimulateOptions options;
    options.record_events = record;
    const SimulatedRun run =
        simulate_ranks(programs, Cluster{}, FlopsAreSeconds(), BytesAreSeconds(), options);
    RC_ASSERT(run.step_seconds == step.step_seconds);
    RC_ASSERT(run.stages[0].compute_seconds == step.compute_seconds);
    RC_ASSERT(run.stages[0].communication_seconds == step.communication_seconds);
    RC_ASSERT(run.stages[0].exposed_seconds == step.exposed_seconds);
    RC_ASSERT(run.stages[0].pass_seconds == step.pass_seconds);
    RC_ASSERT(run.stages[0].bubble_seconds == 0);
    RC_ASSERT(static_cast<int64_t>(run.events.size()) == (record ? run.num_instructions : 0));
  }
}

// Events: streams run one instruction at a time, and each message has a send that ends before its
// receive does.
TEST(RankSimulator, EventsAreARun) {
  const Pipeline pipeline{ScheduleKind::kInterleaved, 4, 8, 2, equal_stages(1, 2), 1};
  const std::vector<StepProgram> programs = pipeline_programs(pipeline);
  SimulateOptions options;
  options.record_events = true;
  const SimulatedRun run =
      simulate_ranks(programs, Cluster{}, FlopsAreSeconds(), BytesAreSeconds(), options);
  EXPECT_EQ(static_cast<int64_t>(run.events.size()), run.num_instructions);
  std::map<int, double> computed_until;
  std::map<int64_t, double> sent;
  double last = 0;
  for (const SimulatedEvent& event : run.events) {
    EXPECT_GE(event.end, last);
    last = event.end;
    const Instruction& instruction = programs[static_cast<size_t>(event.stage)]
                                         .phases[0]
                                         .segments[0]
                                         .body[static_cast<size_t>(event.instruction)];
    if (instruction.op == "linear") {
      EXPECT_EQ(event.message, -1);
      EXPECT_GE(event.begin, computed_until[event.stage]);
      computed_until[event.stage] = event.end;
    } else if (instruction.op == "send") {
      EXPECT_TRUE(sent.emplace(event.message, event.end).second);
    } else {
      ASSERT_TRUE(sent.contains(event.message));
      EXPECT_LE(sent[event.message], event.end);
      sent[event.message] = INFINITY;  // each once
    }
  }
  EXPECT_EQ(last, run.step_seconds);
  for (const auto& [message, end] : sent) EXPECT_EQ(end, INFINITY) << message;
}

}  // namespace
}  // namespace plimsoll
