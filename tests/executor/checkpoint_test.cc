#include "executor/checkpoint.h"

#include "base/error.h"
#include "base/files.h"
#include "executor/llmc_model.h"
#include "executor/safetensors.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/executor/llmc_files.h"
#include "tests/executor/regression_program.h"
#include "tests/executor/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using test::Scratch;
using testing::HasSubstr;

// A program placed in an arena, with initial values of a seed.
class Device {
 public:
  explicit Device(uint64_t seed, const test::RegressionOptions& options = {})
      : program_(test::regression_programs(options).front()),
        arena_(program_.header.arena_bytes, program_.header.arena_bytes),
        pool_(1),
        interpreter_(
            program_, arena_, pool_, *communicator_, [](const auto&, const auto&) {},
            InterpreterOptions{.seed = seed}) {
    interpreter_.run_phase("initialise");
    parts_ = persistent_parts(interpreter_);
  }
  [[nodiscard]] const std::vector<PersistentPart>& parts() const { return parts_; }
  [[nodiscard]] std::vector<float> values(size_t part) const {
    std::vector<float> values(static_cast<size_t>(num_elements(parts_[part].part->box_extent)));
    std::memcpy(values.data(), parts_[part].data, values.size() * 4);
    return values;
  }
  void set(size_t part, float value) {
    for (size_t i = 0; i < values(part).size(); ++i) {
      std::memcpy(parts_[part].data + 4 * i, &value, 4);
    }
  }

 private:
  StepProgram program_;
  Arena arena_;
  ThreadPool pool_;
  std::unique_ptr<Communicator> communicator_ = std::move(make_thread_communicators(1, 20).front());
  Interpreter interpreter_;
  std::vector<PersistentPart> parts_;
};

RunState some_state(int64_t step) {
  RunState state;
  state.step = step;
  state.seed = 0xFFFFFFFFFFFFFFFFULL;
  state.samples = 8 * step;
  state.noise = {.signal_sum = 0.1, .noise_sum = 1.0 / 3, .weight = 0.7};
  state.best_validation_loss = 2.5;
  state.stale_evaluations = 3;
  state.plan_hash = "abc";
  return state;
}

TEST(Checkpoint, RoundTrip) {
  Scratch scratch;
  Device device(1);
  device.set(2, 0.25F);
  const RunState state = some_state(100);
  const std::string path = save_checkpoint(scratch.path("c"), state, device.parts(), 2);
  EXPECT_THAT(path, testing::EndsWith("step_00000100"));

  const FoundCheckpoint found = find_newest_checkpoint(scratch.path("c"));
  ASSERT_TRUE(found.checkpoint.has_value());
  EXPECT_TRUE(found.warnings.empty());
  EXPECT_EQ(found.checkpoint->state, state);
  Device other(2);
  EXPECT_NE(other.values(0), device.values(0));
  load_checkpoint(*found.checkpoint, other.parts());
  for (size_t part = 0; part < device.parts().size(); ++part) {
    EXPECT_EQ(other.values(part), device.values(part));
  }
}

// The model file is in exported layout, so that it serves as initial weights elsewhere.
TEST(Checkpoint, TheModelFileIsAnInitFile) {
  Scratch scratch;
  Device device(1);
  const std::string path = save_checkpoint(scratch.path("c"), some_state(1), device.parts(), 2);
  const auto file = open_tensor_file(path + "/model.safetensors");
  EXPECT_EQ(file->find("weight")->shape, (Shape{3, 2}));  // (in, out) outside
  EXPECT_FALSE(file->find("weight.momentum").has_value());
  Device other(2);
  load_parameters(other.parts(), *file);
  EXPECT_EQ(other.values(0), device.values(0));
}

TEST(Checkpoint, KeepsTheNewest) {
  Scratch scratch;
  const Device device(1);
  for (const int64_t step : {10, 20, 30, 40}) {
    save_checkpoint(scratch.path("c"), some_state(step), device.parts(), 2);
  }
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(scratch.path("c"))) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("step_00000030", "step_00000040"));
}

TEST(Checkpoint, WhatIsNotCompleteIsPassedOver) {
  Scratch scratch;
  const Device device(1);
  const std::string folder = scratch.path("c");
  for (const int64_t step : {1, 2, 3, 4, 5}) {
    save_checkpoint(folder, some_state(step), device.parts(), 9);
  }
  fs::create_directories(folder + "/.step_00000009.tmp");  // a save that was killed
  fs::create_directories(folder + "/step_00000008");       // and one without any file
  fs::remove(folder + "/step_00000005/manifest.json");
  std::string model = read_file(folder + "/step_00000004/model.safetensors");
  model.back() = static_cast<char>(model.back() ^ 1);  // one bit
  write_file(folder + "/step_00000004/model.safetensors", model);
  write_file(folder + "/step_00000003/manifest.json", "{\"step\": 3");
  fs::resize_file(folder + "/step_00000002/optimizer.safetensors", 3);
  const FoundCheckpoint found = find_newest_checkpoint(folder);
  ASSERT_TRUE(found.checkpoint.has_value());
  EXPECT_EQ(found.checkpoint->state.step, 1);
  EXPECT_EQ(found.warnings.size(), 5U);
  EXPECT_FALSE(find_newest_checkpoint(scratch.path("nowhere")).checkpoint.has_value());
}

TEST(Checkpoint, ManifestsOfAnyShapeAreReadOrPassedOver) {
  Scratch scratch;
  const Device device(1);
  const std::string folder = scratch.path("c");
  const std::string path = save_checkpoint(folder, some_state(1), device.parts(), 9);
  const std::string good = read_file(path + "/manifest.json");
  const auto complete_with = [&](const std::string& text) {
    write_file(path + "/manifest.json", text);
    return find_newest_checkpoint(folder).checkpoint.has_value();
  };
  EXPECT_TRUE(complete_with(good));
  for (const std::string& text :
       {std::string("null"), std::string("[]"), std::string("{}"), std::string("\xff\xfe"),
        std::string("{\"plimsoll_checkpoint\": 2}")}) {
    EXPECT_FALSE(complete_with(text)) << text;
  }
  std::string negative = good;
  negative.replace(negative.find("\"step\": 1"), 9, "\"step\": -1");
  EXPECT_FALSE(complete_with(negative));
  std::string wrong = good;
  wrong.replace(wrong.find("\"files\""), 7, "\"filez\"");
  EXPECT_FALSE(complete_with(wrong));
}

// The disk is full half way through: a limit on the size of files has the same effect on writes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(Checkpoint, AFullDiskIsAFailedRunAndLeavesTheOldOne) {
  Scratch scratch;
  const std::string folder = scratch.path("c");
  const Device device(1);
  save_checkpoint(folder, some_state(1), device.parts(), 1);
  for (const rlim_t bytes : {0, 100, 250}) {
    const FileSizeLimit limit(bytes);
    try {
      save_checkpoint(folder, some_state(2), device.parts(), 1);
      FAIL() << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kRunFailed);
      EXPECT_THAT(error.what(), HasSubstr("cannot write"));
      EXPECT_THAT(error.hint(), HasSubstr("free space"));
    }
  }
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(folder)) names.push_back(file.path().filename());
  EXPECT_THAT(names, testing::ElementsAre("step_00000001"));
  EXPECT_EQ(find_newest_checkpoint(folder).checkpoint->state.step, 1);
}

TEST(Checkpoint, AFolderThatCannotBeMadeIsAFailedRun) {
  Scratch scratch;
  const Device device(1);
  scratch.write("c", "");
  try {
    save_checkpoint(scratch.path("c"), some_state(1), device.parts(), 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRunFailed);
  }
}

TEST(Checkpoint, APieceOfATensorIsNotSavedAsTheWhole) {
  Scratch scratch;
  const Device device(1);
  std::vector<PersistentPart> parts = device.parts();
  LogicalPart sharded = *parts[0].part;
  sharded.box_extent[0] = 1;
  parts[0].part = &sharded;
  parts[0].count = num_elements(sharded.box_extent);
  EXPECT_THROW(save_checkpoint(scratch.path("c"), some_state(3), parts, 1), Error);
  EXPECT_TRUE(fs::is_empty(scratch.path("c")));
}

TEST(Checkpoint, AnotherModelIsRefusedByName) {
  Scratch scratch;
  const Device device(1);
  save_checkpoint(scratch.path("c"), some_state(1), device.parts(), 1);
  const Checkpoint checkpoint = *find_newest_checkpoint(scratch.path("c")).checkpoint;
  const Device wider(1, {.inputs = 4});
  try {
    load_checkpoint(checkpoint, wider.parts());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), HasSubstr("'weight' is [3, 2], the model has [4, 2]"));
  }
}

// Boxes, prefixes, transposition and types, against one file.
class Weights : public testing::Test {
 protected:
  std::vector<float> load(const LogicalPart& part, const TensorFile& file) {
    std::vector<float> values(static_cast<size_t>(num_elements(part.box_extent)), -1.0F);
    load_part({&part, "parameter", DType::kF32, reinterpret_cast<std::byte*>(values.data()), 0,
               num_elements(part.box_extent)},
              file);
    return values;
  }
  std::unique_ptr<SafetensorsFile> file(const std::string& name, DType dtype, const Shape& shape,
                                        const void* data) {
    const std::string path = scratch_.path("w.safetensors");
    write_safetensors(path, {{name, dtype, shape, static_cast<const std::byte*>(data), false}}, {});
    return std::make_unique<SafetensorsFile>(path);
  }
  Scratch scratch_;
};

TEST_F(Weights, ABoxOfATransposedTensor) {
  // (in, out) = (2, 3) outside; here (out, in) = (3, 2), of which rows 1 and 2.
  const std::vector<float> outside{1, 2, 3, 4, 5, 6};
  const LogicalPart part{.name = "w",
                         .global_shape = {3, 2},
                         .box_start = {1, 0},
                         .box_extent = {2, 2},
                         .transposed = true};
  EXPECT_THAT(load(part, *file("w", DType::kF32, {2, 3}, outside.data())),
              testing::ElementsAre(2, 5, 3, 6));
  EXPECT_THAT(load(part, *file("transformer.w", DType::kF32, {2, 3}, outside.data())),
              testing::ElementsAre(2, 5, 3, 6));
}

TEST_F(Weights, ABoxAlongTheLastDimension) {
  const std::vector<double> outside{1, 2, 3, 4, 5, 6};
  const LogicalPart part{.name = "w",
                         .global_shape = {2, 3},
                         .box_start = {0, 1},
                         .box_extent = {2, 2},
                         .transposed = false};
  EXPECT_THAT(load(part, *file("w", DType::kF64, {2, 3}, outside.data())),
              testing::ElementsAre(2, 3, 5, 6));
}

TEST_F(Weights, HalfPrecisionTypes) {
  const std::vector<uint16_t> half{0x3C00, 0xC000, 0x0001, 0x7BFF, 0x8000};
  const std::vector<uint16_t> brain{0x3F80, 0xC000, 0x0001, 0x7F7F, 0x8000};
  const LogicalPart part{
      .name = "w", .global_shape = {5}, .box_start = {0}, .box_extent = {5}, .transposed = false};
  EXPECT_THAT(load(part, *file("w", DType::kF16, {5}, half.data())),
              testing::ElementsAre(1, -2, 0x1p-24F, 65504, -0.0F));
  EXPECT_THAT(load(part, *file("w", DType::kBF16, {5}, brain.data())),
              testing::ElementsAre(1, -2, 0x1p-133F, 0x1.fep127F, -0.0F));
}

TEST_F(Weights, WhatDoesNotFitIsNamed) {
  const std::vector<int32_t> outside{1, 2};
  LogicalPart part{
      .name = "w", .global_shape = {2}, .box_start = {0}, .box_extent = {2}, .transposed = false};
  EXPECT_THROW(load(part, *file("w", DType::kI32, {2}, outside.data())), Error);
  EXPECT_THROW(load(part, *file("v", DType::kF32, {2}, outside.data())), Error);
  EXPECT_THROW(load(part, *file("w", DType::kF32, {1, 2}, outside.data())), Error);
}

TEST(LlmcModel, NamesAndPaddedRows) {
  Scratch scratch;
  const test::GoldenShape shape{
      .positions = 5, .vocabulary = 6, .layers = 2, .heads = 1, .channels = 2, .padded = 8};
  const LlmcModelFile file(scratch.write("m.bin", test::golden_model(shape)));
  EXPECT_EQ(file.find("wte.weight")->shape, (Shape{6, 2}));
  EXPECT_EQ(file.find("h.1.attn.c_attn.weight")->shape, (Shape{6, 2}));
  EXPECT_EQ(file.find("h.0.mlp.c_proj.weight")->shape, (Shape{2, 8}));
  EXPECT_FALSE(file.find("h.2.ln_1.weight").has_value());
  EXPECT_TRUE(file.linear_is_out_in());
  const auto floats = [&](const std::string& name) {
    const std::vector<std::byte> bytes = file.read(name);
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  };
  EXPECT_THAT(floats("ln_f.weight"), testing::Each(1));
  EXPECT_THAT(floats("ln_f.bias"), testing::Each(0));
  EXPECT_THAT(floats("h.1.ln_2.weight"), testing::Each(1));
  EXPECT_THAT(floats("h.1.ln_2.bias"), testing::Each(0));
  EXPECT_THAT(floats("wte.weight"), testing::Each(testing::Ne(0)));
  EXPECT_THAT(floats("wpe.weight"), testing::Each(testing::Ne(0)));
}

TEST(LlmcModel, HostileHeaders) {
  Scratch scratch;
  const std::string good = test::golden_model(
      {.positions = 5, .vocabulary = 6, .layers = 2, .heads = 1, .channels = 2, .padded = 8});
  const auto problem = [&](const std::string& bytes) {
    try {
      LlmcModelFile file(scratch.write("m.bin", bytes));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  const auto with_int = [&](size_t index, int32_t value) {
    std::string bytes = good;
    std::memcpy(bytes.data() + 4 * index, &value, 4);
    return bytes;
  };
  EXPECT_EQ(problem(good), "nothing was thrown");
  EXPECT_THAT(problem(good.substr(0, 100)), HasSubstr("offset 100"));
  EXPECT_THAT(problem(good.substr(0, good.size() - 1)), HasSubstr("the header promises"));
  EXPECT_THAT(problem(good + "x"), HasSubstr("the header promises"));
  EXPECT_THAT(problem(with_int(0, 1)), HasSubstr("offset 0: magic 1"));
  EXPECT_THAT(problem(with_int(1, 5)), HasSubstr("offset 4: version 5"));
  EXPECT_THAT(problem(with_int(6, 0)), HasSubstr("offset 24: 0 channels"));
  EXPECT_THAT(problem(with_int(4, -1)), HasSubstr("offset 16: -1 layers"));
  EXPECT_THAT(problem(with_int(7, 5)), HasSubstr("offset 28"));
  EXPECT_THAT(problem(with_int(6, INT32_MAX)),
              testing::AnyOf(HasSubstr("overflow"), HasSubstr("the header promises")));
}

}  // namespace
}  // namespace plimsoll
