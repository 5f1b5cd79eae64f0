#include "program/verify.h"

#include "base/error.h"
#include "program/builder.h"
#include "program/expansion.h"
#include "tests/program/random_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <functional>
#include <limits>
#include <ostream>
#include <set>

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

// Buffers of the sound program below, in order.
enum : int { kScalars, kWeight, kGradient, kTokens, kActivation, kWorkspace, kStash };

// A layer trained on two micro-batches with a reduction on another stream, placed by hand:
//
//   offset  0 scalars | 256 w | 512 g | 768 tokens | 1024 x (2 copies) | 1536 ws
StepProgram sound() {
  ProgramBuilder builder;
  builder.header().samples = {8, 4, 0, 4, 2};
  builder.add_buffer(kScalarsBuffer, Category::kFramework, DType::kF64, {kNumScalars});
  builder.add_buffer("w", Category::kParameters, DType::kF32, {4, 4});
  builder.add_buffer("g", Category::kGradients, DType::kF32, {4, 4});
  builder.add_buffer("tokens", Category::kInput, DType::kI32, {4});
  builder.add_buffer("x", Category::kActivations, DType::kF32, {4, 4});
  builder.add_buffer("ws", Category::kWorkspace, DType::kU8, {200});
  builder.add_buffer("stash", Category::kActivations, DType::kF32, {4, 4});
  builder.buffer(kScalars).persistent = true;
  Buffer& w = builder.buffer(kWeight);
  w.persistent = true;
  w.logical =
      LogicalTensor{{{"q", {4, 4}, {0, 0}, {1, 4}, false}, {"k", {8, 4}, {5, 0}, {3, 4}, true}},
                    {Initialiser::Kind::kNormal, 0.02},
                    "parameter",
                    "matrix"};
  builder.buffer(kActivation).copies = 2;
  builder.buffer(kStash).place = Place::kHost;
  const std::vector<std::vector<int64_t>> offsets = {{0},          {256},  {512}, {768},
                                                     {1024, 1280}, {1536}, {}};
  for (size_t b = 0; b < offsets.size(); ++b)
    builder.buffer(static_cast<int>(b)).offsets = offsets[b];
  builder.header().arena_bytes = 1792;

  builder.phase("initialise").segment("all");
  builder.emit("initialise", {}, {kWeight});
  builder.phase("step").segment("begin");
  builder.emit("fill", {}, {kGradient}, {{"value", 0.0}});
  builder.segment("micro-batches", 2);
  builder.emit("load_batch", {}, {kTokens}, {{"field", "tokens"}});
  builder.emit("forward", {kTokens, kWeight, kNoBuffer}, {kActivation, kNoBuffer});
  builder.emit("backward", {kActivation}, {kGradient, kWorkspace}).accumulate = 1;
  builder.segment("update");
  Instruction& reduce = builder.emit("all_reduce", {kGradient}, {kGradient}, {{"group", "dp"}});
  reduce.accumulate = 1;
  reduce.stream = Stream::kDataParallel;
  Instruction& copy = builder.emit("copy", {kWeight}, {kStash});
  copy.stream = Stream::kCopy;
  Instruction& update = builder.emit("sgd", {kWeight, kGradient, kScalars}, {kWeight});
  update.accumulate = 1;
  update.waits = {0, 1};
  return std::move(builder).build();
}

Instruction& instruction(StepProgram& program, size_t segment, size_t index) {
  return program.phases[1].segments[segment].body[index];
}

std::set<std::string> broken_rules(const StepProgram& program) {
  std::set<std::string> out;
  for (const Violation& violation : verify(program)) out.insert(violation.rule);
  return out;
}

TEST(Verify, SoundProgramHasNoViolation) {
  EXPECT_THAT(verify(sound()), IsEmpty());
  EXPECT_TRUE(is_placed(sound()));
  EXPECT_NO_THROW(verify_or_throw(sound(), "here"));
}

TEST(Verify, ProgramBeforePlacementIsSound) {
  StepProgram program = sound();
  for (Buffer& buffer : program.buffers) buffer.offsets.clear();
  program.header.arena_bytes = 0;
  EXPECT_THAT(verify(program), IsEmpty());
  EXPECT_FALSE(is_placed(program));
}

TEST(Verify, ErrorNamesThePlaceAndTheRules) {
  StepProgram program = sound();
  program.header.rank = -1;
  program.buffers[kTokens].copies = 0;
  try {
    verify_or_throw(program, "plan.json, rank 0");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), HasSubstr("plan.json, rank 0"));
    EXPECT_THAT(error.what(), HasSubstr("header: rank -1"));
    EXPECT_THAT(error.what(), HasSubstr("copies: buffer 'tokens' has 0 copies"));
  }
}

// One change of the sound program that breaks one rule and no other.
struct Breach {
  std::string name;
  std::string rule;
  std::string message;  // part of the violation's text
  std::function<void(StepProgram&)> change;

  friend void PrintTo(const Breach& breach, std::ostream* out) { *out << breach.name; }
};

class VerifyRule : public ::testing::TestWithParam<Breach> {};

TEST_P(VerifyRule, IsBrokenAlone) {
  StepProgram program = sound();
  GetParam().change(program);
  EXPECT_EQ(broken_rules(program), std::set<std::string>{GetParam().rule});
  const std::vector<Violation> violations = verify(program);
  ASSERT_FALSE(violations.empty());
  EXPECT_THAT(violations[0].message, HasSubstr(GetParam().message));
}

const std::vector<Breach> kBreaches = {
    {"Version", "header", "version 2", [](StepProgram& p) { p.header.version = 2; }},
    {"Alignment", "header", "alignment 96", [](StepProgram& p) { p.header.alignment = 96; }},
    {"AlignmentZero", "header", "alignment 0", [](StepProgram& p) { p.header.alignment = 0; }},
    {"AlignmentHuge", "header", "alignment",
     [](StepProgram& p) { p.header.alignment = int64_t{1} << 62; }},
    {"PeakOverflow", "header", "overflows", [](StepProgram& p) { p.header.outside_bytes = kHuge; }},
    {"FlopsNotFinite", "header", "not finite",
     [](StepProgram& p) { p.header.model_flops = std::numeric_limits<double>::quiet_NaN(); }},
    {"HyperparameterNotFinite", "header", "'theta'",
     [](StepProgram& p) {
       p.header.hyperparameters.set("theta", std::numeric_limits<double>::infinity());
     }},
    {"Coordinate", "header", "coordinate tp is 1 of 1",
     [](StepProgram& p) { p.header.coordinates.tp = 1; }},
    {"SampleOutsideBatch", "header", "outside the global batch",
     [](StepProgram& p) { p.header.samples.first = 1; }},
    {"SampleOverflow", "header", "outside the global batch",
     [](StepProgram& p) { p.header.samples.num_microbatches = kHuge; }},
    {"SamplesShared", "header", "share samples",
     [](StepProgram& p) { p.header.samples.per_microbatch = 3; }},
    {"SampleZero", "header", "too small", [](StepProgram& p) { p.header.samples.micro_batch = 0; }},

    {"DuplicateName", "buffer-name", "'w'", [](StepProgram& p) { p.buffers[kTokens].name = "w"; }},
    {"EmptyName", "buffer-name", "no name", [](StepProgram& p) { p.buffers[kTokens].name = ""; }},
    {"ZeroExtent", "buffer-size", "[4, 0]",
     [](StepProgram& p) {
       p.buffers[kActivation].shape = {4, 0};
     }},
    {"NegativeExtent", "buffer-size", "[-4, -4]",
     [](StepProgram& p) {
       p.buffers[kActivation].shape = {-4, -4};
     }},
    {"BytesOverflow", "buffer-size", "overflow",
     [](StepProgram& p) {
       p.buffers[kActivation].shape = {kHuge, kHuge, kHuge};
     }},
    {"SumOverflow", "buffer-size", "overflow",
     [](StepProgram& p) {
       for (const int b : {kActivation, kWorkspace})
         p.buffers[static_cast<size_t>(b)].shape = {kHuge / 16};
       p.buffers[kWorkspace].copies = 15;
     }},
    {"NoCopies", "copies", "'x' has 0", [](StepProgram& p) { p.buffers[kActivation].copies = 0; }},
    {"AbsurdCopies", "copies", "2147483653 buffer copies",
     [](StepProgram& p) { p.buffers[kActivation].copies = std::numeric_limits<int>::max(); }},
    {"DuplicatePhase", "phase-name", "'step'", [](StepProgram& p) { p.phases[0].name = "step"; }},
    {"NoRepeat", "repeat", "repeat 0", [](StepProgram& p) { p.phases[1].segments[1].repeat = 0; }},
    {"NegativeMicrobatch", "repeat", "negative",
     [](StepProgram& p) { p.phases[1].segments[1].microbatch_stride = -1; }},
    {"NegativeRelativeMicrobatch", "repeat", "negative",
     [](StepProgram& p) { instruction(p, 0, 0).microbatch = -1; }},
    {"MicrobatchOverflow", "repeat", "overflows",
     [](StepProgram& p) {
       p.phases[1].segments[1].repeat = kHuge;
       p.phases[1].segments[1].microbatch_stride = kHuge;
     }},
    {"OperandTooLarge", "operand", "operand 7 of 7",
     [](StepProgram& p) { instruction(p, 1, 1).inputs[0] = 7; }},
    {"OperandNegative", "operand", "operand -2",
     [](StepProgram& p) { instruction(p, 1, 1).outputs[0] = -2; }},
    {"OutputTwice", "operand", "two of its outputs",
     [](StepProgram& p) {
       instruction(p, 1, 2).outputs = {kGradient, kGradient};
     }},
    {"AccumulateAbsent", "accumulate", "output 1, which is absent",
     [](StepProgram& p) { instruction(p, 1, 1).accumulate = 2; }},
    {"AccumulatePastEnd", "accumulate", "output 31",
     [](StepProgram& p) { instruction(p, 1, 1).accumulate = 1U << 31; }},
    {"WaitForLater", "wait", "waits for instruction 2",
     [](StepProgram& p) { instruction(p, 2, 0).waits = {2}; }},
    {"WaitForItself", "wait", "waits for instruction 1",
     [](StepProgram& p) { instruction(p, 2, 1).waits = {1}; }},
    {"WaitNegative", "wait", "waits for instruction -1",
     [](StepProgram& p) { instruction(p, 2, 1).waits = {-1}; }},
    {"WaitOnOwnStream", "wait", "its own stream",
     [](StepProgram& p) { instruction(p, 1, 1).waits = {0}; }},
    {"OpEmpty", "instruction", "no operation",
     [](StepProgram& p) { instruction(p, 1, 1).op = ""; }},
    {"FlopsNegative", "instruction", "flops -1",
     [](StepProgram& p) { instruction(p, 1, 1).flops = -1; }},
    {"AttributeNotFinite", "instruction", "'value'",
     [](StepProgram& p) {
       instruction(p, 0, 0).attributes.set("value", std::numeric_limits<double>::quiet_NaN());
     }},
    {"Expansion", "expansion", "33554432",
     [](StepProgram& p) {
       Segment& segment = p.phases[1].segments[1];
       segment.repeat = 1'000'000'000'000'000'000;
       for (const int copies : {1021, 1019, 1013}) {
         Buffer buffer = p.buffers[kActivation];
         buffer.name += std::to_string(copies);
         buffer.copies = copies;
         p.buffers.push_back(buffer);
         segment.body[1].outputs.push_back(static_cast<int>(p.buffers.size()) - 1);
       }
     }},

    {"ViewOfNothing", "view", "operand 5, which is absent",
     [](StepProgram& p) {
       instruction(p, 1, 1).views = {{5, {16}}};
     }},
    {"ViewOfAbsentOperand", "view", "operand 2, which is absent",
     [](StepProgram& p) {
       instruction(p, 1, 1).views = {{2, {16}}};
     }},
    {"ViewOfOtherSize", "view", "views buffer 'x' of shape [4, 4] as [4, 5]",
     [](StepProgram& p) {
       instruction(p, 1, 1).views = {{1, {2, 8}}, {3, {4, 5}}};
     }},
    {"ViewOverflow", "view", "views buffer 'x'",
     [](StepProgram& p) {
       instruction(p, 1, 1).views = {{3, {kHuge, kHuge}}};
     }},
    {"RunningShape", "logical-tensor", "running statistics",
     [](StepProgram& p) {
       p.buffers[kWeight].logical->initialiser.kind = Initialiser::Kind::kRunning;
     }},
    {"BoxOutside", "logical-tensor", "does not lie inside",
     [](StepProgram& p) { p.buffers[kWeight].logical->parts[1].box_start[0] = 6; }},
    {"BoxOverflow", "logical-tensor", "does not lie inside",
     [](StepProgram& p) { p.buffers[kWeight].logical->parts[1].box_start[0] = kHuge; }},
    {"BoxRank", "logical-tensor", "dimensions",
     [](StepProgram& p) { p.buffers[kWeight].logical->parts[1].box_extent = {3}; }},
    {"RowsMissing", "logical-tensor", "add up",
     [](StepProgram& p) { p.buffers[kWeight].logical->parts.pop_back(); }},
    {"NoParts", "logical-tensor", "add up",
     [](StepProgram& p) { p.buffers[kWeight].logical->parts.clear(); }},
    {"RowsTooWide", "logical-tensor", "add up",
     [](StepProgram& p) {
       for (LogicalPart& part : p.buffers[kWeight].logical->parts) part.box_extent[1] = 2;
     }},
    {"InitialiserScale", "logical-tensor", "scale",
     [](StepProgram& p) { p.buffers[kWeight].logical->initialiser.scale = -1; }},

    {"UseBeforeDefinition", "defined-before-use", "reads buffer 'tokens'",
     [](StepProgram& p) { std::swap(instruction(p, 1, 0), instruction(p, 1, 1)); }},
    {"AccumulateUndefined", "defined-before-use", "reads buffer 'g'",
     [](StepProgram& p) { instruction(p, 0, 0).outputs[0] = kWorkspace; }},
    {"ValueCrossesPhases", "defined-before-use", "reads buffer 'g'",
     [](StepProgram& p) {
       p.phases[0].segments[0].body.push_back(instruction(p, 0, 0));
       p.phases[1].segments.erase(p.phases[1].segments.begin());
     }},
    {"PersistentNotInitialised", "persistent-initialised", "phase 'initialise' does not define",
     [](StepProgram& p) {
       p.phases[0].segments[0].body.clear();
       // With a value before it is read, so that only the missing initialisation is wrong.
       instruction(p, 0, 0).outputs.push_back(kWeight);
     }},
    {"PersistentWithoutValue", "persistent-initialised", "reads persistent buffer 'state'",
     [](StepProgram& p) { p.buffers[kScalars].name = "state"; }},
    {"InputNotLoaded", "input-loaded", "which only load_batch may",
     [](StepProgram& p) { instruction(p, 1, 0).op = "fill"; }},
    {"WriteBesideRead", "order", "'g'", [](StepProgram& p) { instruction(p, 2, 2).waits = {1}; }},
    {"ReadBesideWrite", "order", "'w'", [](StepProgram& p) { instruction(p, 2, 2).waits = {0}; }},

    {"OffsetMissing", "offset", "2 copies and 1 offsets",
     [](StepProgram& p) { p.buffers[kActivation].offsets.pop_back(); }},
    {"OffsetsTooMany", "offset", "1 copies and 2 offsets",
     [](StepProgram& p) { p.buffers[kWorkspace].offsets.push_back(0); }},
    {"OffsetUnaligned", "offset", "100 is not a multiple",
     [](StepProgram& p) { p.buffers[kGradient].offsets[0] = 100; }},
    {"OffsetNegative", "offset", "-256 is not a multiple",
     [](StepProgram& p) { p.buffers[kGradient].offsets[0] = -256; }},
    {"OffsetOutside", "offset", "reach past the arena",
     [](StepProgram& p) { p.buffers[kWorkspace].offsets[0] = 1792; }},
    {"OffsetOverflow", "offset", "reach past the arena",
     [](StepProgram& p) { p.buffers[kWorkspace].offsets[0] = kHuge / 256 * 256; }},
    {"HostOffset", "offset", "host buffer 'stash'",
     [](StepProgram& p) { p.buffers[kStash].offsets = {0}; }},
    {"PlacedWithoutOffsets", "offset", "0 offsets",
     [](StepProgram& p) {
       for (Buffer& buffer : p.buffers) buffer.offsets.clear();
     }},
    {"Overlap", "overlap", "'g' (copy 0, bytes 512 to 768) and 'tokens' (copy 0, bytes 512 to 768)",
     [](StepProgram& p) { p.buffers[kTokens].offsets[0] = 512; }},
    {"OverlapWithPersistent", "overlap", "'w'",
     [](StepProgram& p) { p.buffers[kTokens].offsets[0] = 256; }},
    {"ArenaTooLarge", "arena", "arena_bytes is 2048, the highest buffer ends at 1792",
     [](StepProgram& p) { p.header.arena_bytes = 2048; }},
    {"EndNeverWritten", "arena-end-written", "'scalars2'",
     [](StepProgram& p) {
       Buffer buffer = p.buffers[kScalars];
       buffer.name = "scalars2";
       buffer.offsets = {1792};
       p.buffers.push_back(buffer);
       p.header.arena_bytes = 2048;
     }},
};

INSTANTIATE_TEST_SUITE_P(All, VerifyRule, ::testing::ValuesIn(kBreaches),
                         [](const auto& breach) { return breach.param.name; });

// Bytes on two streams: `ws` is used on the copy stream and nothing waits for it, so `x` may not
// follow it.
TEST(Verify, OverlapIsAMatterOfOrderNotOfTheList) {
  ProgramBuilder builder;
  const int ws = builder.add_buffer("ws", Category::kWorkspace, DType::kU8, {256});
  const int x = builder.add_buffer("x", Category::kActivations, DType::kU8, {256});
  builder.buffer(ws).offsets = {0};
  builder.buffer(x).offsets = {0};
  builder.header().arena_bytes = 256;
  builder.phase("step").segment("all");
  builder.emit("send", {}, {ws}).stream = Stream::kCopy;
  builder.emit("fill", {}, {x});
  StepProgram program = std::move(builder).build();
  EXPECT_EQ(broken_rules(program), std::set<std::string>{"overlap"});
  program.phases[0].segments[0].body[1].waits = {0};
  EXPECT_THAT(verify(program), IsEmpty());
}

TEST(Verify, HugeRepeatIsCheapAndSound) {
  StepProgram program = sound();
  program.phases[1].segments[1].repeat = 1'000'000'000'000'000'000;
  EXPECT_THAT(verify(program), IsEmpty());
}

TEST(Verify, WithoutInitialisePhaseLogicalBuffersComeFromACheckpoint) {
  StepProgram program = sound();
  program.phases.erase(program.phases.begin());
  EXPECT_THAT(verify(program), IsEmpty());
}

// Numbers drawn at the ends of their types in any field: verify answers, it neither crashes nor
// stalls (the sanitizer builds of this test also see overflow).
RC_GTEST_PROP(VerifyProperty, AnswersOnHostileNumbers, ()) {
  StepProgram program = testing::random_program();
  const auto wild = [] {
    static const std::vector<int64_t> kWild = {
        kHuge, -kHuge - 1, -1, 0, 1, 2, kHuge / 2, 1LL << 31, 1LL << 20, 1'000'000'000'000'000'000};
    return *rc::gen::elementOf(kWild);
  };
  const auto wild_int = [&] { return static_cast<int>(wild()); };
  std::vector<std::function<void()>> changes;
  for (Buffer& buffer : program.buffers) {
    changes.emplace_back([&] { buffer.copies = wild_int(); });
    changes.emplace_back([&] { buffer.shape.assign(3, wild()); });
    changes.emplace_back(
        [&] { buffer.offsets.assign(static_cast<size_t>(buffer.copies > 0), wild()); });
    if (buffer.logical)
      changes.emplace_back([&] { buffer.logical->parts[0].box_start[0] = wild(); });
  }
  for (Phase& phase : program.phases) {
    for (Segment& segment : phase.segments) {
      changes.emplace_back([&] { segment.repeat = wild(); });
      changes.emplace_back([&] { segment.first_microbatch = wild(); });
      changes.emplace_back([&] { segment.microbatch_stride = wild(); });
      for (Instruction& instruction : segment.body) {
        changes.emplace_back([&] { instruction.microbatch = wild_int(); });
        changes.emplace_back([&] { instruction.inputs.push_back(wild_int()); });
        changes.emplace_back([&] { instruction.accumulate = static_cast<uint32_t>(wild()); });
        changes.emplace_back([&] { instruction.waits.push_back(wild_int()); });
      }
    }
  }
  changes.emplace_back([&] { program.header.alignment = wild(); });
  changes.emplace_back([&] { program.header.arena_bytes = wild(); });
  changes.emplace_back([&] { program.header.samples.num_microbatches = wild(); });
  for (int n = *rc::gen::inRange(1, 4); n > 0; --n)
    changes[*rc::gen::inRange<size_t>(0, changes.size())]();
  (void)verify(program);
}

}  // namespace
}  // namespace plimsoll
