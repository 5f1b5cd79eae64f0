// Training through the binary: what is predicted is what is used, to the byte, and a plan never
// changes the result.
#include "tests/cli/run_binary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace plimsoll {
namespace {

using testing::Folder;
using ::testing::HasSubstr;
using testing::plimsoll;

struct Trained {
  std::map<std::string, std::vector<std::string>> metrics;
  nlohmann::json summary;
};

Trained train(const std::string& arguments) {
  const Folder folder;
  const auto outcome = plimsoll("train " + arguments + " --out " + (folder / "run"));
  EXPECT_EQ(outcome.exit_code, 0) << arguments << "\n" << outcome.error << outcome.out;
  if (outcome.exit_code != 0) return {};
  return {testing::read_csv(folder / "run/metrics.csv"),
          nlohmann::json::parse(testing::read_text(folder / "run/summary.json"))};
}

TEST(Train, MeasuredArenaIsThePredictedOneForEveryFamily) {
  for (const char* model : {"gpt2-tiny --seq 32", "llama-tiny --seq 32", "bert-tiny --seq 32",
                            "vit-tiny", "mlp", "resnet-tiny"}) {
    for (const char* split :
         {"--micro-batch 4", "--micro-batch 2", "--micro-batch 2 --devices 2"}) {
      for (const char* recompute : {"none", "selective", "full"}) {
        const std::string arguments = std::string(model) + " --steps 2 --global-batch 4 " + split +
                                      " --recompute " + recompute;
        SCOPED_TRACE(arguments);
        const Trained run = train(arguments);
        ASSERT_FALSE(run.summary.is_null());
        for (const auto& rank : run.summary.at("ranks")) {
          EXPECT_EQ(rank.at("measured_arena_bytes"), rank.at("predicted_arena_bytes"));
          EXPECT_TRUE(rank.at("guard_intact").get<bool>());
        }
      }
    }
  }
}

TEST(Train, PlanRunsAtItsPeakAndNotWithOneByteLess) {
  const Folder folder;
  ASSERT_EQ(
      plimsoll("plan gpt2-tiny 2xcpu --global-batch 8 --seq 32 --memory-limit 2500KiB --json " +
               (folder / "plan.json"))
          .exit_code,
      0);
  const auto plan = nlohmann::json::parse(testing::read_text(folder / "plan.json"));
  const auto peak = plan.at("predicted").at("peak_bytes").at(0).get<int64_t>();
  const std::string command =
      "train gpt2-tiny --steps 2 --plan " + (folder / "plan.json") + " --device-memory ";
  EXPECT_EQ(plimsoll(command + std::to_string(peak)).exit_code, 0);
  const auto less = plimsoll(command + std::to_string(peak - 1));
  EXPECT_EQ(less.exit_code, 3);
  EXPECT_THAT(less.error, HasSubstr("--device-memory"));
}

TEST(Train, RecomputeIsBitwiseAndAccumulationAndRanksStayWithinRounding) {
  const std::string base =
      "gpt2-tiny --steps 12 --global-batch 8 --seq 32 --learning-rate 3e-3 --dropout 0.1 ";
  const Trained plain = train(base + "--micro-batch 4 --recompute none");
  const Trained again = train(base + "--micro-batch 4 --recompute none --threads 3");
  const Trained recomputed = train(base + "--micro-batch 4 --recompute full");
  EXPECT_EQ(again.metrics.at("loss"), plain.metrics.at("loss"));
  EXPECT_EQ(recomputed.metrics.at("loss"), plain.metrics.at("loss"));
  EXPECT_EQ(recomputed.metrics.at("validation_loss"), plain.metrics.at("validation_loss"));
  // A different grouping of the sums: each loss is a mean of 256 terms near 5.5 in fp32, and ten
  // steps of AdamW carry the differences on. 1e-4 is over ten times what is seen.
  for (const char* split : {"--micro-batch 1", "--devices 2 --micro-batch 4",
                            "--devices 4 --micro-batch 1 --recompute full"}) {
    SCOPED_TRACE(split);
    const Trained other = train(base + split);
    const auto losses = testing::numbers(other.metrics.at("loss"));
    const auto expected = testing::numbers(plain.metrics.at("loss"));
    ASSERT_EQ(losses.size(), expected.size());
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-4);
    EXPECT_EQ(train(base + split).metrics.at("loss"), other.metrics.at("loss"));
  }
}

// As a user would split it; in single precision, with the bound of the test above.
TEST(Train, ASplitModelLearnsTheSame) {
  for (const char* model : {"gpt2-tiny", "llama-tiny"}) {
    const std::string base = std::string(model) +
                             " --steps 12 --global-batch 8 --seq 32 --learning-rate 3e-3 " +
                             (model[0] == 'g' ? "--dropout 0.1 " : "");
    const Trained plain = train(base + "--micro-batch 2");
    const auto expected = testing::numbers(plain.metrics.at("loss"));
    for (const char* split :
         {"--devices 4 --tp 2 --pp 2", "--devices 4 --zero 3 --dp 4",
          "--devices 8 --tp 2 --pp 2 --zero 1 --micro-batch 2",
          "--devices 2 --pp 2 --micro-batch 2",
          "--devices 16 --tp 2 --pp 2 --dp 4 --zero 2 --micro-batch 1 --recompute full"}) {
      SCOPED_TRACE(std::string(model) + " " + split);
      const Trained other = train(base + split);
      const auto losses = testing::numbers(other.metrics.at("loss"));
      ASSERT_EQ(losses.size(), expected.size());
      for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-4);
      for (const auto& rank : other.summary.at("ranks")) {
        EXPECT_EQ(rank.at("measured_arena_bytes"), rank.at("predicted_arena_bytes"));
      }
    }
    const Trained staged = train(base + "--devices 2 --pp 2 --micro-batch 2");
    EXPECT_EQ(staged.metrics.at("loss"), plain.metrics.at("loss"));
  }
}

TEST(Train, ANoiseScaleComesFromRanksOrFromMicroBatches) {
  const std::string base = "gpt2-tiny --steps 30 --global-batch 8 --seq 32 --learning-rate 1e-3 ";
  const Trained ranks = train(base + "--devices 4 --micro-batch 2");
  const Trained batches = train(base + "--devices 1 --micro-batch 2 --noise-every 1");
  ASSERT_EQ(testing::numbers(ranks.metrics.at("noise_scale")).size(), 30U);
  // The same four small batches of two samples, whichever way they are run.
  const double from_ranks = testing::numbers(ranks.metrics.at("noise_scale")).back();
  const double from_batches = testing::numbers(batches.metrics.at("noise_scale")).back();
  EXPECT_GT(from_ranks, 0);
  EXPECT_NEAR(from_batches / from_ranks, 1, 1e-2);
  const Trained none = train(base + "--micro-batch 8");
  EXPECT_TRUE(testing::numbers(none.metrics.at("noise_scale")).empty());
}

TEST(Train, StopsOnTargetAndOnConvergence) {
  const std::string base =
      "gpt2-tiny --global-batch 8 --seq 32 --learning-rate 3e-3 --eval-every 5 ";
  const Trained target = train(base + "--steps 200 --target-loss 5.2");
  EXPECT_EQ(target.summary.at("stopped_by"), "target loss");
  EXPECT_LE(target.summary.at("validation_loss").get<double>(), 5.2);
  EXPECT_LT(target.summary.at("steps").get<int64_t>(), 200);
  // A learning rate too small to move the loss: three evaluations without a new best end the run.
  const Trained patience =
      train("mlp --global-batch 8 --steps 500 --learning-rate 1e-30 --eval-every 1 --patience 3");
  EXPECT_EQ(patience.summary.at("stopped_by"), "converged");
  EXPECT_LT(patience.summary.at("steps").get<int64_t>(), 500);
}

TEST(Train, AJobFileIsTheCommandLine) {
  const Folder folder;
  testing::write_text(folder / "job.toml",
                      "model = \"gpt2-tiny\"\nsteps = 3\nglobal-batch = 4\nseq = 16\n"
                      "learning_rate = 0.002\nrecompute = \"full\"\n");
  const Trained from_file = train(folder / "job.toml");
  const Trained typed =
      train("gpt2-tiny --steps 3 --global-batch 4 --seq 16 --learning-rate 0.002 --recompute full");
  EXPECT_EQ(from_file.metrics.at("loss"), typed.metrics.at("loss"));
  const Trained overridden = train((folder / "job.toml") + " --steps 5");
  EXPECT_EQ(overridden.metrics.at("loss").size(), 5U);
}

TEST(Train, ResumeIsBitwise) {
  const Folder folder;
  const std::string base =
      "gpt2-tiny --global-batch 4 --seq 16 --lr-schedule constant --warmup-steps 0 --dropout 0.1 ";
  const Trained whole = train(base + "--steps 12");
  const std::string out = folder / "run";
  ASSERT_EQ(plimsoll("train " + base + "--steps 7 --checkpoint-every 5 --out " + out).exit_code, 0);
  const auto refused = plimsoll("train " + base + "--steps 12 --out " + out);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.error, HasSubstr("--resume"));
  ASSERT_EQ(plimsoll("train " + base + "--steps 12 --resume " + out).exit_code, 0);
  const auto metrics = testing::read_csv(out + "/metrics.csv");
  EXPECT_EQ(metrics.at("loss"), whole.metrics.at("loss"));
  EXPECT_EQ(metrics.at("gradient_norm"), whole.metrics.at("gradient_norm"));
}

TEST(Train, ImagesOfDigitsAreLearnt) {
  const char* digits = std::getenv("PLIMSOLL_DIGITS");
  const std::string path =
      digits != nullptr ? digits : std::string(PLIMSOLL_SOURCE_DIR) + "/out/data/digits.csv";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent: run scripts/digits";
  const Trained run = train("resnet-tiny --data " + path +
                            " --global-batch 64 --steps 200 --learning-rate 3e-3 --eval-batches 3");
  // The last 179 images, never seen: chance is 10%, the run reaches about 95%.
  EXPECT_GT(run.summary.at("validation_accuracy").get<double>(), 0.93);
}

}  // namespace
}  // namespace plimsoll
