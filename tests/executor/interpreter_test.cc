#include "executor/interpreter.h"

#include "base/error.h"
#include "base/rng.h"
#include "executor/initialise.h"
#include "kernels/cpu/thread_pool.h"
#include "planner/placement.h"
#include "program/builder.h"
#include "tests/executor/count_allocations.h"
#include "tests/executor/regression_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace plimsoll {
namespace {

using testing::HasSubstr;

class Machine {
 public:
  explicit Machine(StepProgram program, LoadBatch load = {}, bool poison = false)
      : program_(std::move(program)),
        arena_(program_.header.arena_bytes, program_.header.arena_bytes),
        pool_(1),
        interpreter_(program_, arena_, pool_, *communicator_, std::move(load),
                     InterpreterOptions{.seed = 0, .poison = poison}) {}
  Interpreter* operator->() { return &interpreter_; }
  [[nodiscard]] Arena& arena() { return arena_; }
  [[nodiscard]] float at(const char* name, int64_t index) const {
    return interpreter_.operand(program_.find_buffer(name)).as<float>()[index];
  }

 private:
  StepProgram program_;
  Arena arena_;
  ThreadPool pool_;
  std::unique_ptr<Communicator> communicator_ = std::move(make_thread_communicators(1, 20).front());
  Interpreter interpreter_;
};

// persistent "sum" [4] += "x" [4], which is filled with 1; in `repeat` iterations.
ProgramBuilder adding_program(int64_t repeat) {
  ProgramBuilder b;
  b.header().samples = {.global_batch = repeat,
                        .micro_batch = 1,
                        .first = 0,
                        .per_microbatch = 1,
                        .num_microbatches = repeat};
  const int sum = b.add_buffer("sum", Category::kOptimizer, DType::kF32, {4});
  b.buffer(sum).persistent = true;
  const int x = b.add_buffer("x", Category::kActivations, DType::kF32, {4});
  b.phase("step").segment("begin");
  b.emit("fill", {}, {sum}, {{"value", 0.0}});
  b.segment("micro-batches", repeat);
  b.emit("fill", {}, {x}, {{"value", 1.0}});
  b.emit("add", {sum, x}, {sum});
  return b;
}

StepProgram placed(ProgramBuilder b) {
  StepProgram program = std::move(b).build();
  place_buffers(program);
  return program;
}

std::string resolve_error(StepProgram program) {
  try {
    Machine machine(std::move(program));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Interpreter, RunsSegmentsAsOftenAsTheySay) {
  Machine machine(placed(adding_program(768)));
  machine->run_phase("step");
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(machine.at("sum", i), 768);
  machine->run_phase("step");
  EXPECT_EQ(machine.at("sum", 0), 768);
}

TEST(Interpreter, AnUnknownPhaseOrOperationIsNamed) {
  Machine machine(placed(adding_program(1)));
  EXPECT_THROW(machine->run_phase("evaluate"), Error);
  ProgramBuilder b = adding_program(1);
  b.emit("frobnicate", {0}, {0}).accumulate = 1;
  EXPECT_THAT(resolve_error(placed(std::move(b))),
              HasSubstr("phase 'step', segment 'micro-batches', instruction 2 (frobnicate)"));
}

TEST(Interpreter, WhatIsOnlyPlannedIsRefused) {
  {
    ProgramBuilder b = adding_program(1);
    b.header().hyperparameters.set("float", std::string("bf16"));
    EXPECT_THAT(resolve_error(placed(std::move(b))),
                HasSubstr("planned but cannot be run by the cpu backend yet"));
  }
  {
    ProgramBuilder b = adding_program(1);
    const int half = b.add_buffer("half", Category::kActivations, DType::kBF16, {4});
    b.emit("fill", {}, {half}, {{"value", 0.0}});
    EXPECT_THAT(resolve_error(placed(std::move(b))),
                HasSubstr("planned but cannot be run by the cpu backend yet"));
  }
}

TEST(Interpreter, AProgramWithoutOffsetsOrWithOverlapsIsRefused) {
  EXPECT_THAT(resolve_error(adding_program(1).program()), HasSubstr("no offsets"));
  StepProgram program = placed(adding_program(1));
  program.buffers[1].offsets = program.buffers[0].offsets;
  EXPECT_THAT(resolve_error(std::move(program)), HasSubstr("overlap"));
}

TEST(Interpreter, ViewsMustHaveAsManyElements) {
  ProgramBuilder b = adding_program(1);
  b.emit("fill", {}, {1}, {{"value", 0.0}}).views = {{0, {2, 3}}};
  EXPECT_NE(resolve_error(placed(std::move(b))), "nothing was thrown");
}

// Buffers with copies: micro-batch m uses copy m modulo 3, also past the last full round.
TEST(Interpreter, CopiesRotateWithTheMicroBatch) {
  ProgramBuilder b;
  b.header().samples = {
      .global_batch = 8, .micro_batch = 1, .first = 0, .per_microbatch = 1, .num_microbatches = 8};
  const int x = b.add_buffer("x", Category::kInput, DType::kF32, {1});
  b.buffer(x).copies = 3;
  const int sum = b.add_buffer("sum", Category::kOptimizer, DType::kF32, {1});
  b.buffer(sum).persistent = true;
  const auto load = [&] {
    b.emit("load_batch", {}, {x},
           {{"field", std::string("values")}, {"split", std::string("train")}});
  };
  b.phase("step").segment("begin");
  b.emit("fill", {}, {sum}, {{"value", 0.0}});
  b.segment("first");  // loads micro-batches 0 and 1 ahead
  load();
  b.segment("second", 1, 1);
  load();
  b.segment("steady", 6);  // loads m + 2, uses m
  load();
  StepProgram program = std::move(b).build();
  Segment& steady = program.phases[0].segments[3];
  steady.body[0].microbatch = 2;
  Instruction add;
  add.op = "add";
  add.inputs = {sum, x};
  add.outputs = {sum};
  steady.body.push_back(add);
  program.phases[0].segments.push_back({"rest", 2, 6, 1, {add}});
  place_buffers(program);

  std::vector<int64_t> asked;
  for (const bool poison : {false, true}) {
    asked.clear();
    Machine machine(
        program,
        [&](const BatchRequest& request, const Operand& out) {
          asked.push_back(request.first_sample);
          *out.as<float>() = std::ldexp(1.0F, static_cast<int>(request.first_sample));
        },
        poison);
    machine->run_phase("step");
    EXPECT_EQ(machine.at("sum", 0), 255) << "each micro-batch's own value, once";
    EXPECT_THAT(asked, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  }
}

TEST(Interpreter, ReleasedBuffersArePoisoned) {
  for (const bool poison : {false, true}) {
    Machine machine(placed(adding_program(5)), {}, poison);
    machine->run_phase("step");
    EXPECT_EQ(std::isnan(machine.at("x", 0)), poison);
    EXPECT_EQ(machine.at("sum", 0), 5);
  }
}

TEST(Interpreter, AStepDoesNotAllocate) {
  if (!test::allocations_are_counted()) GTEST_SKIP() << "a sanitizer owns the allocator";
  for (const bool poison : {false, true}) {
    Machine machine(
        test::regression_programs({.global_batch = 8, .micro_batch = 2, .copies = 3}).front(),
        [](const BatchRequest& /*request*/, const Operand& out) {
          std::fill_n(out.as<float>(), out.size(), 0.5F);
        },
        poison);
    std::vector<int> grows;
    EXPECT_GT(test::count_allocations([&] { grows.resize(1000); }), 0);
    EXPECT_EQ(test::count_allocations([&] {
                machine->run_phase("initialise");
                machine->run_phase("step");
              }),
              0);
  }
}

TEST(Interpreter, AllocationInsideAStepIsAnError) {
  Arena* arena = nullptr;
  Machine machine(test::regression_programs({}).front(),
                  [&](const BatchRequest& /*request*/, const Operand& /*out*/) {
                    (void)arena->allocate(0, 64, "a batch");
                  });
  arena = &machine.arena();
  machine->run_phase("initialise");
  try {
    machine->run_phase("step");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRunFailed);
    EXPECT_THAT(error.what(), HasSubstr("a batch"));
    EXPECT_THAT(error.what(), HasSubstr("sealed"));
  }
}

// A box of a tensor has the values that the whole tensor has there.
TEST(Initialise, ABoxIsAPieceOfTheWhole) {
  ThreadPool pool(2);
  const auto values = [&](const std::vector<int64_t>& start, const Shape& extent) {
    LogicalTensor tensor;
    tensor.initialiser = {Initialiser::Kind::kNormal, 0.02};
    tensor.parts = {{.name = "w",
                     .global_shape = {6, 5, 4},
                     .box_start = start,
                     .box_extent = extent,
                     .transposed = false}};
    std::vector<float> filled(static_cast<size_t>(num_elements(extent)));
    initialise_buffer(tensor, {filled.data(), DType::kF32, &extent}, 9, pool);
    return filled;
  };
  const std::vector<float> whole = values({0, 0, 0}, {6, 5, 4});
  const std::vector<float> box = values({2, 1, 1}, {3, 4, 2});
  for (size_t a = 0; a < 3; ++a) {
    for (size_t b = 0; b < 4; ++b) {
      for (size_t c = 0; c < 2; ++c) {
        EXPECT_EQ(box[(a * 4 + b) * 2 + c], whole[((a + 2) * 5 + b + 1) * 4 + c + 1]);
      }
    }
  }
  EXPECT_EQ(whole[7], static_cast<float>(rng_normal(9, rng_purpose("init:w"), 7) * 0.02));
}

TEST(Initialise, Kinds) {
  ThreadPool pool(1);
  const auto values = [&](Initialiser initialiser) {
    LogicalTensor tensor;
    tensor.initialiser = initialiser;
    const Shape shape{2, 3};
    tensor.parts = {{.name = "w",
                     .global_shape = shape,
                     .box_start = {0, 0},
                     .box_extent = shape,
                     .transposed = false}};
    std::vector<double> filled(6);
    initialise_buffer(tensor, {filled.data(), DType::kF64, &shape}, 0, pool);
    return filled;
  };
  EXPECT_THAT(values({Initialiser::Kind::kZero, 0}), testing::Each(0));
  EXPECT_THAT(values({Initialiser::Kind::kOne, 0}), testing::Each(1));
  EXPECT_THAT(values({Initialiser::Kind::kRunning, 0}), testing::ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(values({Initialiser::Kind::kUniform, 0.5}),
              testing::Each(testing::AllOf(testing::Ge(-0.5), testing::Lt(0.5))));
}

}  // namespace
}  // namespace plimsoll
