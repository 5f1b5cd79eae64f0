#include "program/text.h"

#include "base/error.h"
#include "base/rng.h"
#include "program/builder.h"
#include "program/verify.h"
#include "tests/program/random_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

StepProgram small_program() {
  ProgramBuilder builder;
  builder.header().model = "tiny";
  builder.header().hyperparameters = {{"layers", int64_t{2}}, {"theta", 1e4}, {"objective", "mse"}};
  builder.header().predicted_step_seconds = 0.1;
  const int w = builder.add_buffer("h.0/w", Category::kParameters, DType::kF32, {4, 4});
  builder.buffer(w).persistent = true;
  builder.buffer(w).layer = 0;
  builder.buffer(w).op = "linear";
  builder.buffer(w).offsets = {0};
  builder.buffer(w).logical =
      LogicalTensor{{{"q", {4, 4}, {0, 0}, {1, 4}, false}, {"k", {8, 4}, {5, 0}, {3, 4}, true}},
                    {Initialiser::Kind::kNormal, 0.02},
                    "parameter",
                    "matrix"};
  const int x = builder.add_buffer("x", Category::kActivations, DType::kBF16, {4, 4});
  builder.buffer(x).copies = 2;
  builder.buffer(x).offsets = {256, 512};
  const int s = builder.add_buffer("a \"quoted\"\nname", Category::kWorkspace, DType::kU8, {});
  builder.buffer(s).place = Place::kHost;
  builder.header().arena_bytes = 768;
  builder.phase("initialise").segment("all");
  builder.emit("initialise", {}, {w}).pass = Pass::kInitialise;
  builder.phase("step").segment("micro-batches", 2, 0, 1);
  builder.emit("linear", {w, kNoBuffer}, {x, kNoBuffer, s}, {{"epsilon", 1e-5}});
  Instruction& send = builder.emit("send", {x}, {});
  send.stream = Stream::kCopy;
  send.waits = {0};
  send.microbatch = 1;
  send.flops = 1e9;
  Instruction& update = builder.emit("sgd", {x}, {w});
  update.accumulate = 1;
  update.layer = 3;
  update.views = {{0, {16}}, {1, {2, 8}}};
  update.pass = Pass::kUpdate;
  return std::move(builder).build();
}

const char* const kSmallText =
    R"(plimsoll_program 1
model tiny
hyperparameters {layers=2 objective="mse" theta=10000.0}
rank 0 dp=0/1 tp=0/1 pp=0/1 cp=0/1 ep=0/1
samples global_batch=1 micro_batch=1 first=0 per_microbatch=1 num_microbatches=1
memory alignment=256 arena_bytes=768 outside_bytes=0
compute model_flops=0.0 hardware_flops=0.0 peak_flops_per_second=0.0 predicted_step_seconds=0.1
flops_convention "(6 N + 12 L s h) FLOPs a token"

buffer h.0/w                parameters    f32  [4,4] persistent layer=0 op=linear at=0
  logical normal scale=0.02 role=parameter group=matrix
  part q of [4,4] start=[0,0] extent=[1,4]
  part k of [8,4] start=[5,0] extent=[3,4] transposed
buffer x                    activations   bf16 [4,4] copies=2 at=256,512
buffer "a \"quoted\"\nname" workspace     u8   []    host

phase initialise
  segment all repeat=1 first=0 stride=1
      0 compute  initialise initialise -> h.0/w

phase step
  segment micro-batches repeat=2 first=0 stride=1
      0 compute  forward    linear h.0/w - -> x - "a \"quoted\"\nname" {epsilon=1e-05}
      1 copy     forward    send   x ->                                microbatch=1 waits=0 flops=1000000000.0
      2 compute  update     sgd    x -> +h.0/w                         views=0:[16],1:[2,8] layer=3
)";

TEST(Text, LooksAsDocumented) { EXPECT_EQ(to_text(small_program()), kSmallText); }

TEST(Text, ReadsBack) { EXPECT_EQ(parse_text(kSmallText, "small"), small_program()); }

TEST(Text, CommentsAndBlankLinesAreSkipped) {
  const std::string text = std::string("# by hand\n\n") + kSmallText + "\n   # the end\n";
  EXPECT_EQ(parse_text(text, "small"), small_program());
}

TEST(Text, DoublesReadBackExactly) {
  StepProgram program = small_program();
  for (const double value : {0.1, 1.0 / 3, 1e300, 5e-324, std::numeric_limits<double>::max(), 1e15,
                             123456789012345678.0, -0.5}) {
    program.header.hyperparameters.set("v", value);
    EXPECT_EQ(parse_text(to_text(program), "p"), program) << value;
  }
}

TEST(Text, IntegersAndRealsStayApart) {
  StepProgram program = small_program();
  program.header.hyperparameters.set("a", int64_t{3});
  program.header.hyperparameters.set("b", 3.0);
  program.header.hyperparameters.set("c", std::string("3"));
  EXPECT_EQ(parse_text(to_text(program), "p"), program);
}

// What passes print while they are wrong still prints, and reads back.
TEST(Text, UnsoundProgramReadsBack) {
  StepProgram program = small_program();
  program.buffers[1].name = "h.0/w";  // not unique: operands are printed as #1
  Instruction& instruction = program.phases[1].segments[0].body[0];
  instruction.inputs.push_back(99);
  instruction.outputs.push_back(-7);
  instruction.accumulate = 0x8000000A;
  EXPECT_EQ(parse_text(to_text(program), "p"), program);
}

RC_GTEST_PROP(TextProperty, RoundTripIsExact, ()) {
  StepProgram program = testing::random_program();
  for (Buffer& buffer : program.buffers) {
    if (*rc::gen::inRange(0, 3) == 0) buffer.name = *rc::gen::arbitrary<std::string>();
    if (*rc::gen::inRange(0, 3) == 0) buffer.offsets = *rc::gen::arbitrary<std::vector<int64_t>>();
  }
  program.header.hyperparameters.set(*rc::gen::arbitrary<std::string>(),
                                     *rc::gen::arbitrary<std::string>());
  program.header.hyperparameters.set("double", *rc::gen::arbitrary<double>());
  program.header.hyperparameters.set("int", *rc::gen::arbitrary<int64_t>());
  const std::string text = to_text(program);
  const StepProgram back = parse_text(text, "p");
  RC_ASSERT(back == program);
  RC_ASSERT(to_text(back) == text);
}

// Text that parses prints to text that parses to the same; anything else is an Error with a place.
void expect_answer(const std::string& text) {
  try {
    const StepProgram program = parse_text(text, "edited.txt");
    const std::string printed = to_text(program);
    ASSERT_EQ(to_text(parse_text(printed, "printed.txt")), printed) << text;
    (void)verify(program);
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ExitCode::kBadInput);
    ASSERT_THAT(error.what(), HasSubstr("edited.txt:")) << text;
  }
}

TEST(Text, AnyEditOfBytesIsAnsweredWithoutACrash) {
  const uint64_t purpose = rng_purpose("edits");
  for (uint64_t run = 0; run < 3000; ++run) {
    std::string text = kSmallText;
    for (uint64_t edit = 0; edit <= run % 4 && !text.empty(); ++edit) {
      const uint64_t bits = rng_bits(run, purpose, edit);
      const size_t at = (bits >> 16) % text.size();
      switch (bits % 6) {
        case 0:
          text[at] = static_cast<char>(bits >> 8);
          break;
        case 1:
          text.erase(at, 1 + (bits >> 8) % 8);
          break;
        case 2:
          text.insert(at, text.substr((bits >> 40) % text.size(), 1 + (bits >> 8) % 40));
          break;
        case 3:
          text.insert(at, 1, "0123456789-+[]{}=,#\"\\> "[(bits >> 8) % 23]);
          break;
        case 4:
          text.insert(at, "99999999999999999999");
          break;
        default:
          text.resize(at);
      }
    }
    expect_answer(text);
  }
}

RC_GTEST_PROP(TextProperty, AnyBytesAreAnswered, (const std::string& bytes)) {
  expect_answer(bytes);
  expect_answer(fmt::format("plimsoll_program 1\n{}", bytes));
}

RC_GTEST_PROP(TextProperty, RandomEditsOfRandomProgramsAreAnswered, ()) {
  std::string text = to_text(testing::random_program());
  for (int n = *rc::gen::inRange(1, 5); n > 0 && !text.empty(); --n) {
    const auto at = *rc::gen::inRange<size_t>(0, text.size());
    const auto from = *rc::gen::inRange<size_t>(0, text.size());
    const std::string piece = text.substr(from, *rc::gen::inRange<size_t>(0, 12));
    text.replace(at, *rc::gen::inRange<size_t>(0, 6), piece);
  }
  expect_answer(text);
}

std::string message_of(const std::string& text) {
  try {
    (void)parse_text(text, "plan.txt");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Text, ErrorsNameFileLineAndWhatIsWrong) {
  const std::string head = "plimsoll_program 1\n";
  EXPECT_EQ(message_of(""), "plan.txt:1: expected 'plimsoll_program 1', found the end of the line");
  EXPECT_EQ(message_of("hello"), "plan.txt:1: expected 'plimsoll_program', found \"hello\"");
  EXPECT_EQ(message_of("plimsoll_program 2"),
            "plan.txt:1: version 2 is not known; this is version 1");
  EXPECT_EQ(message_of(head + "bufer x"), "plan.txt:2: unknown kind of line 'bufer'");
  EXPECT_EQ(message_of(head + "buffer x food f32 [1]"), "plan.txt:2: unknown category 'food'");
  EXPECT_EQ(message_of(head + "buffer x input f31 [1]"), "plan.txt:2: unknown dtype 'f31'");
  EXPECT_EQ(message_of(head + "buffer x input f32 [1"),
            "plan.txt:2: expected ']', found the end of the line");
  EXPECT_EQ(message_of(head + "buffer x input f32 [99999999999999999999]"),
            "plan.txt:2: an extent does not fit in 64 bits");
  EXPECT_EQ(message_of(head + "buffer x input f32 [1] copies=1 copies=2"),
            "plan.txt:2: 'copies' is given twice");
  EXPECT_EQ(message_of(head + "buffer x input f32 [1] copies=4294967296"),
            "plan.txt:2: copies 4294967296 is out of range");
  EXPECT_EQ(message_of(head + "buffer \"x input"),
            "plan.txt:2: a quoted name does not end on its line");
  EXPECT_EQ(message_of(head + "rank 0\nrank 1"), "plan.txt:3: 'rank' is given twice");
  EXPECT_EQ(message_of(head + "segment s"), "plan.txt:2: a segment before the first phase");
  const std::string body = head + "buffer x input f32 [1]\nphase step\nsegment s\n";
  EXPECT_EQ(message_of(body + "0 compute forward relu x -> y"),
            "plan.txt:5: no buffer is named \"y\"");
  EXPECT_EQ(message_of(body + "1 compute forward relu x -> x"),
            "plan.txt:5: instruction 1 stands where 0 is expected");
  EXPECT_EQ(message_of(body + "0 compute forward relu x"),
            "plan.txt:5: expected a buffer's name, found the end of the line");
  EXPECT_EQ(message_of(body + "0 compute forward relu x -> x {a=}"),
            "plan.txt:5: expected an attribute's value, found \"}\"");
}

}  // namespace
}  // namespace plimsoll
