// The golden runs: weights and tokens by formula, ten AdamW steps on one batch. llm.c and PyTorch
// agree on these losses to 1e-6 (tiny) and 4e-5 (124M); the binary must reproduce them whichever
// way it plans the step.
#include "tests/cli/run_binary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace plimsoll {
namespace {

using testing::Folder;

uint64_t mix(uint64_t x) {
  x *= 0x9E3779B97F4A7C15ULL;
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ULL;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

struct Shape {
  int64_t positions, vocabulary, padded, layers, heads, channels, batch, seq;
};
constexpr Shape kTiny{64, 256, 256, 2, 4, 64, 4, 32};
constexpr Shape kSmall{1024, 50257, 50304, 12, 12, 768, 4, 64};

// A GPT-2 checkpoint in llm.c's format: normal-like weights from a hash of the element's index.
void write_weights(const Shape& s, const std::string& path) {
  std::vector<int32_t> header(256, 0);
  header[0] = 20240326;
  header[1] = 3;
  header[2] = static_cast<int32_t>(s.positions);
  header[3] = static_cast<int32_t>(s.vocabulary);
  header[4] = static_cast<int32_t>(s.layers);
  header[5] = static_cast<int32_t>(s.heads);
  header[6] = static_cast<int32_t>(s.channels);
  header[7] = static_cast<int32_t>(s.padded);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(header.data()), 1024);
  uint64_t index = 0;
  const int64_t c = s.channels;
  const auto matrix = 0.035F;
  const auto projection =
      static_cast<float>(0.035 / std::sqrt(2.0 * static_cast<double>(s.layers)));
  const auto random = [&](int64_t count, float scale, int64_t zeros_after) {
    std::vector<float> values(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      const auto u = static_cast<float>(mix(++index) >> 40);
      values[static_cast<size_t>(i)] = i < zeros_after ? (u * 0x1p-23F - 1.0F) * scale : 0.0F;
    }
    file.write(reinterpret_cast<const char*>(values.data()), count * 4);
  };
  const auto constant = [&](int64_t count, float value) {
    const std::vector<float> values(static_cast<size_t>(count), value);
    index += static_cast<uint64_t>(count);
    file.write(reinterpret_cast<const char*>(values.data()), count * 4);
  };
  const int64_t l = s.layers;
  random(s.padded * c, matrix, s.vocabulary * c);  // wte
  random(s.positions * c, matrix, INT64_MAX);      // wpe
  constant(l * c, 1);                              // ln1w
  constant(l * c, 0);
  random(l * 3 * c * c, matrix, INT64_MAX);  // qkvw
  constant(l * 3 * c, 0);
  random(l * c * c, projection, INT64_MAX);  // attprojw
  constant(l * c, 0);
  constant(l * c, 1);  // ln2w
  constant(l * c, 0);
  random(l * 4 * c * c, matrix, INT64_MAX);  // fcw
  constant(l * 4 * c, 0);
  random(l * 4 * c * c, projection, INT64_MAX);  // fcprojw
  constant(l * c, 0);
  constant(c, 1);  // lnfw
  constant(c, 0);
}

void write_tokens(const Shape& s, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  for (int64_t j = 0; j <= s.batch * s.seq; ++j) {
    const uint64_t token = (mix(1000000000000ULL + static_cast<uint64_t>(j) + 1) >> 33) %
                           static_cast<uint64_t>(s.vocabulary);
    const auto word = static_cast<uint16_t>(token);
    file.write(reinterpret_cast<const char*>(&word), 2);
  }
}

class Golden {
 public:
  Golden(const Shape& shape, const std::string& model, double learning_rate)
      : shape_(shape), model_(model), learning_rate_(learning_rate) {
    write_weights(shape, folder_ / "weights.bin");
    write_tokens(shape, folder_ / "tokens.bin");
  }

  // Losses of ten steps planned with these options.
  std::map<std::string, std::vector<std::string>> run(const std::string& options) {
    const std::string out = folder_ / ("run" + std::to_string(runs_++));
    const auto outcome = testing::plimsoll(
        "train " + model_ + " --data " + (folder_ / "tokens.bin") + " --init " +
        (folder_ / "weights.bin") + " --steps 10 --global-batch " + std::to_string(shape_.batch) +
        " --seq " + std::to_string(shape_.seq) + " --learning-rate " +
        std::to_string(learning_rate_) +
        " --lr-schedule constant --warmup-steps 0 --decay all --clip 0 --eval-batches 0"
        " --data-order sequential --validation-fraction 0 --out " +
        out + " " + options);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
    return testing::read_csv(out + "/metrics.csv");
  }

 private:
  Folder folder_;
  Shape shape_;
  std::string model_;
  double learning_rate_;
  int runs_ = 0;
};

void expect_close(const std::vector<double>& losses, const std::vector<double>& expected,
                  double tolerance) {
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(losses[i], expected[i], tolerance) << "step " << i;
  }
}

TEST(Golden, TinyGpt2UnderEveryPlan) {
  const std::vector<double> expected = {5.555596, 5.295872, 5.109955, 4.963499, 4.849526,
                                        4.750334, 4.661499, 4.580235, 4.503630, 4.430245};
  Golden golden(kTiny, "gpt2-tiny", 1e-3);
  std::map<std::string, std::vector<std::string>> plain;
  for (const char* options :
       {"--micro-batch 4 --recompute none", "--micro-batch 4 --recompute full",
        "--micro-batch 1 --recompute none", "--micro-batch 2 --recompute full",
        "--devices 2 --micro-batch 2 --recompute none",
        "--devices 2 --micro-batch 1 --recompute full", "--devices 4 --loss-chunks 4",
        "--micro-batch 4 --attention naive --recompute none",
        "--micro-batch 4 --loss-chunks 3 --recompute full"}) {
    SCOPED_TRACE(options);
    const auto metrics = golden.run(options);
    expect_close(testing::numbers(metrics.at("loss")), expected, 2e-5);
    EXPECT_NEAR(testing::numbers(metrics.at("gradient_norm")).front(), 1.658302, 1.7e-5);
    if (plain.empty()) plain = metrics;
    // Recompute at the same micro-batch and kernels is bitwise the plain run.
    if (std::string(options) == "--micro-batch 4 --recompute full") {
      EXPECT_EQ(metrics.at("loss"), plain.at("loss"));
      EXPECT_EQ(metrics.at("gradient_norm"), plain.at("gradient_norm"));
    }
  }
}

TEST(GoldenSlow, Gpt2Of124MillionParameters) {
  const std::vector<double> expected = {10.975815, 9.500202, 8.458118, 8.006205, 6.514649,
                                        5.823186,  5.475216, 4.647362, 3.928743, 3.331662};
  Golden golden(kSmall, "gpt2", 1e-4);
  const auto metrics = golden.run("--micro-batch 4 --recompute none");
  expect_close(testing::numbers(metrics.at("loss")), expected, 2e-4);
  EXPECT_NEAR(testing::numbers(metrics.at("gradient_norm")).front(), 18.08139, 2e-4);
}

}  // namespace
}  // namespace plimsoll
