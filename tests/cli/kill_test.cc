// Runs on several devices that are killed or asked to end, and go on as if nothing had been.
#include "tests/cli/run_binary.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <random>
#include <thread>

namespace plimsoll {
namespace {

using testing::Folder;
using testing::plimsoll;

constexpr int kKills = 20;

const std::string kJob =
    "train gpt2-tiny --devices 4 --tp 2 --pp 2 --global-batch 4 --seq 16 --lr-schedule constant "
    "--warmup-steps 0 --eval-batches 0 --dropout 0.1 ";

// The binary in a process of its own, silent.
pid_t start(const std::string& arguments) {
  const std::string command = "exec " + std::string(PLIMSOLL_BINARY) + " " + arguments;
  const pid_t child = fork();
  if (child != 0) return child;
  const int null = open("/dev/null", O_RDWR);
  for (const int stream : {0, 1, 2}) dup2(null, stream);
  execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  _exit(127);
}

int wait_for(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

// Rows of the file so far, the last one maybe cut.
size_t rows_of(const std::string& metrics) {
  const std::string text = testing::read_text(metrics);
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

// Every kill comes at a random moment: in a step, in a save, between the two, or at the start.
TEST(Kill, NeverLeavesAStateThatDoesNotGoOn) {
  const Folder folder;
  const std::string job = kJob + "--steps 60 ";
  ASSERT_EQ(plimsoll(job + "--out " + (folder / "whole")).exit_code, 0);
  const auto whole = testing::read_csv(folder / "whole/metrics.csv");
  const std::string run = folder / "run";
  std::mt19937 random(1);
  int kills = 0;
  while (kills < kKills) {
    const pid_t child = start(job + "--checkpoint-every 1 --keep-checkpoints 2 --resume " + run);
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + random() % 180));
    kill(child, SIGKILL);
    const int status = wait_for(child);
    if (WIFSIGNALED(status)) {
      ++kills;
    } else {  // it was faster
      ASSERT_EQ(WEXITSTATUS(status), 0);
      EXPECT_EQ(testing::read_csv(run + "/metrics.csv").at("loss"), whole.at("loss"));
      std::filesystem::remove_all(run);
    }
  }
  ASSERT_EQ(plimsoll(job + "--checkpoint-every 1 --resume " + run).exit_code, 0);
  const auto metrics = testing::read_csv(run + "/metrics.csv");
  EXPECT_EQ(metrics.at("loss"), whole.at("loss"));
  EXPECT_EQ(metrics.at("gradient_norm"), whole.at("gradient_norm"));
}

TEST(Kill, TerminationWritesACheckpointOfAllRanks) {
  const Folder folder;
  const std::string run = folder / "run";
  const pid_t child = start(kJob + "--steps 1000000 --out " + run);
  for (int i = 0; i < 2000 && rows_of(run + "/metrics.csv") < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  kill(child, SIGTERM);
  const int status = wait_for(child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
  const size_t done = rows_of(run + "/metrics.csv") - 1;
  ASSERT_GE(done, 4U);
  const std::string job = kJob + fmt::format("--steps {} ", done + 10);
  ASSERT_EQ(plimsoll(job + "--out " + (folder / "whole")).exit_code, 0);
  ASSERT_EQ(plimsoll(job + "--resume " + run).exit_code, 0);
  EXPECT_EQ(testing::read_csv(run + "/metrics.csv").at("loss"),
            testing::read_csv(folder / "whole/metrics.csv").at("loss"));
}

}  // namespace
}  // namespace plimsoll
