#include "costmodel/simulator.h"

#include "tests/costmodel/expect_error.h"
#include "tests/costmodel/unit_time.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

Instruction compute(double seconds, Pass pass, std::vector<int> waits = {}) {
  Instruction instruction;
  instruction.op = "linear";
  instruction.flops = seconds;
  instruction.pass = pass;
  instruction.waits = std::move(waits);
  return instruction;
}

Instruction all_reduce(int buffer, Stream stream, std::vector<int> waits = {}) {
  Instruction instruction;
  instruction.op = "all_reduce";
  instruction.inputs = instruction.outputs = {buffer};
  instruction.accumulate = 1;
  instruction.stream = stream;
  instruction.pass = Pass::kReduce;
  instruction.waits = std::move(waits);
  return instruction;
}

// Buffer k has 10 * (k + 1) bytes.
StepProgram make_program(std::vector<Segment> segments, int dp_size = 2) {
  StepProgram program;
  for (int64_t k = 0; k < 3; ++k) {
    Buffer buffer;
    buffer.dtype = DType::kU8;
    buffer.shape = {10 * (k + 1)};
    program.buffers.push_back(buffer);
  }
  program.header.coordinates.dp_size = dp_size;
  program.phases.push_back({"step", std::move(segments)});
  return program;
}

Segment segment(int64_t repeat, std::vector<Instruction> body) {
  Segment result;
  result.name = "body";
  result.repeat = repeat;
  result.body = std::move(body);
  return result;
}

SimulatedStep run(const StepProgram& program) {
  return simulate(program, Cluster{}, FlopsAreSeconds(), BytesAreSeconds());
}

TEST(Simulator, OneStreamIsASum) {
  const SimulatedStep step = run(make_program({segment(
      1, {compute(1, Pass::kForward), compute(2, Pass::kRecompute), compute(4, Pass::kBackward),
          all_reduce(0, Stream::kCompute), compute(8, Pass::kUpdate)})}));
  EXPECT_DOUBLE_EQ(step.step_seconds, 25);
  EXPECT_DOUBLE_EQ(step.compute_seconds, 15);
  EXPECT_DOUBLE_EQ(step.communication_seconds, 10);
  EXPECT_DOUBLE_EQ(step.exposed_seconds, 10);
  EXPECT_DOUBLE_EQ(step.seconds_of(Pass::kForward), 1);
  EXPECT_DOUBLE_EQ(step.seconds_of(Pass::kRecompute), 2);
  EXPECT_DOUBLE_EQ(step.seconds_of(Pass::kBackward), 4);
  EXPECT_DOUBLE_EQ(step.seconds_of(Pass::kReduce), 10);
  EXPECT_DOUBLE_EQ(step.seconds_of(Pass::kUpdate), 8);
}

TEST(Simulator, ARepeatedBodyTakesItsTimeOnceARepetition) {
  const SimulatedStep step = run(make_program(
      {segment(768, {compute(1, Pass::kForward), compute(2, Pass::kBackward)}),
       segment(1, {compute(5, Pass::kUpdate)}), segment(0, {compute(9, Pass::kUpdate)})}));
  EXPECT_DOUBLE_EQ(step.step_seconds, 768 * 3 + 5);
  EXPECT_DOUBLE_EQ(step.seconds_of(Pass::kForward), 768);
  EXPECT_DOUBLE_EQ(step.seconds_of(Pass::kUpdate), 5);
  ASSERT_EQ(step.segments.size(), 3U);
  EXPECT_DOUBLE_EQ(step.segments[0].body_seconds, 3);
}

// Two gradients: the first is reduced (10 s) while the second is computed (6 s); the second
// reduction (20 s) follows the first on its stream; the update waits for both.
TEST(Simulator, CollectivesOverlapUntilTheyAreWaitedFor) {
  const SimulatedStep step = run(make_program(
      {segment(1, {compute(3, Pass::kBackward), all_reduce(0, Stream::kDataParallel, {0}),
                   compute(6, Pass::kBackward), all_reduce(1, Stream::kDataParallel, {2}),
                   compute(1, Pass::kUpdate, {1, 3})})}));
  // compute 0-3 and 3-9; reductions 3-13 and 13-33; update 33-34.
  EXPECT_DOUBLE_EQ(step.step_seconds, 34);
  EXPECT_DOUBLE_EQ(step.communication_seconds, 30);
  EXPECT_DOUBLE_EQ(step.exposed_seconds, 24);  // 9 to 33
}

TEST(Simulator, StreamsJoinAtTheEndOfABody) {
  const SimulatedStep step = run(make_program(
      {segment(2, {compute(3, Pass::kBackward), all_reduce(0, Stream::kDataParallel, {0})}),
       segment(1, {compute(1, Pass::kUpdate)})}));
  EXPECT_DOUBLE_EQ(step.step_seconds, 2 * 13 + 1);
}

// The whole tensor counts, whichever side has it: gathered (10 into 30), scattered, or in place.
TEST(Simulator, CollectivesAreAsLargeAsTheWholeTensor) {
  const auto bytes = [](std::vector<int> inputs, std::vector<int> outputs) {
    Instruction instruction = all_reduce(0, Stream::kCompute);
    instruction.inputs = std::move(inputs);
    instruction.outputs = std::move(outputs);
    return collective_bytes(make_program({}), instruction);
  };
  EXPECT_EQ(bytes({0}, {2}), 30);
  EXPECT_EQ(bytes({2}, {0}), 30);
  EXPECT_EQ(bytes({kNoBuffer}, {1}), 20);
  EXPECT_EQ(bytes({1}, {}), 20);
}

TEST(Simulator, OneRankCommunicatesForNothing) {
  EXPECT_DOUBLE_EQ(
      run(make_program({segment(1, {all_reduce(2, Stream::kCompute)})}, 1)).step_seconds, 0);
}

TEST(Simulator, AnEmptyStepTakesNoTime) {
  EXPECT_EQ(run(make_program({})).step_seconds, 0);
  EXPECT_EQ(run(make_program({segment(4, {})})).step_seconds, 0);
}

TEST(Simulator, AMissingPhaseAndAnUnknownGroupAreErrors) {
  expect_error([] { (void)run(StepProgram{}); }, ExitCode::kBadInput, "no phase 'step'");
  Instruction odd = all_reduce(0, Stream::kCompute);
  odd.attributes.set("group", "xp");
  expect_error([&] { (void)run(make_program({segment(1, {odd})})); }, ExitCode::kBadInput,
               "unknown group 'xp'");
}

TEST(Simulator, GroupsAreNestedInRankOrder) {
  Coordinates at;
  at.tp_size = 2;
  at.cp_size = 3;
  at.ep_size = 5;
  at.dp_size = 7;
  at.pp_size = 11;
  Instruction instruction;
  const auto group = [&](const char* name) {
    instruction.attributes.set("group", name);
    return group_of(instruction, at);
  };
  EXPECT_EQ(group("tp"), (CollectiveGroup{2, 1}));
  EXPECT_EQ(group("cp"), (CollectiveGroup{3, 2}));
  EXPECT_EQ(group("ep"), (CollectiveGroup{5, 6}));
  EXPECT_EQ(group("dp"), (CollectiveGroup{7, 30}));
  EXPECT_EQ(group("pp"), (CollectiveGroup{11, 210}));
  EXPECT_EQ(group("embedding"), (CollectiveGroup{2, 2100}));  // first and last stage
}

// A message goes to the neighbour, whose ranks lie beyond those of this stage; the last stage's
// next is the first.
TEST(Simulator, MessagesJoinTwoStages) {
  Coordinates at;
  at.tp_size = 2;
  at.dp_size = 3;
  at.pp_size = 4;
  at.pp = 3;
  Instruction send;
  send.op = "send";
  send.attributes.set("peer", std::string("previous"));
  EXPECT_EQ(group_of(send, at), (CollectiveGroup{2, 6}));
  send.attributes.set("peer", std::string("next"));
  EXPECT_EQ(group_of(send, at), (CollectiveGroup{2, 18}));
}

// With the models that plans use: one product of 312e12 * 0.75 FLOPs on an A100 takes a second.
TEST(Simulator, UsesTheCatalogue) {
  StepProgram program = make_program({segment(3, {compute(312e12 * 0.75, Pass::kForward)})}, 1);
  program.buffers[0].dtype = DType::kBF16;
  program.phases[0].segments[0].body[0].inputs = {0};
  const SimulatedStep step = simulate(program, parse_cluster("1xa100-80gb"));
  EXPECT_NEAR(step.step_seconds, 3, 1e-5);
}

}  // namespace
}  // namespace plimsoll
