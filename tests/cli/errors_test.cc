// What a user can get wrong gives one clear message on stderr and the right exit code.
#include "tests/cli/run_binary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

namespace plimsoll {
namespace {

using testing::Folder;
using ::testing::HasSubstr;
using testing::plimsoll;

void expect_error(const std::string& arguments, int exit_code, const std::string& message) {
  const auto outcome = plimsoll(arguments);
  EXPECT_EQ(outcome.exit_code, exit_code) << arguments << "\n" << outcome.error;
  EXPECT_THAT(outcome.error, HasSubstr("error: ")) << arguments;
  EXPECT_THAT(outcome.error, HasSubstr(message)) << arguments;
}

TEST(Errors, NamesAreChecked) {
  expect_error("plan gpt3 1xa100-40gb", 2, "gpt3");
  expect_error("plan gpt22 1xa100-40gb", 2, "did you mean");
  expect_error("plan gpt2 1xa100-40gbb", 2, "did you mean");
  expect_error("hardware h10", 2, "h10");
  expect_error("models lama2-7b", 2, "llama2-7b");
  expect_error("plann gpt2 1xcpu", 2, "did you mean 'plan'");
  expect_error("plan gpt2", 2, "CLUSTER");
  expect_error("plan gpt2 1xcpu --frobnicate", 2, "--frobnicate");
  expect_error("", 2, "subcommand");
}

TEST(Errors, SplitsThatCannotBeAreNotTrained) {
  expect_error("train gpt2-tiny --steps 1 --zero 1", 2, "there is one");
  expect_error("train gpt2-tiny --devices 2 --steps 1 --cp 2", 2, "cp");
}

TEST(Errors, AbsurdSizesAreRefused) {
  for (const char* value : {"0", "-1", "99999999999999999999", "9223372036854775807", "x", "1.5"}) {
    expect_error(std::string("plan gpt2-tiny 1xcpu --global-batch ") + value, 2, "");
    expect_error(std::string("plan gpt2-tiny 1xcpu --seq ") + value, 2, "");
    expect_error(std::string("plan gpt2-tiny 1xcpu --micro-batch ") + value, 2, "");
    expect_error(std::string("train gpt2-tiny --devices ") + value, 2, "");
  }
  for (const char* value :
       {"0", "-1", "0MiB", "1e99GiB", "9223372036854775808", "many", "1XiB", "nan"}) {
    expect_error(std::string("plan gpt2-tiny 1xcpu --memory-limit=") + value, 2, "--memory-limit");
    expect_error(std::string("train gpt2-tiny --device-memory=") + value, 2, "--device-memory");
  }
  expect_error("plan gpt2-tiny 0xcpu", 2, "0");
  expect_error("plan gpt2-tiny 99999999999999999999xcpu", 2, "");
  expect_error("plan gpt2 1xa100-40gb --seq 2048", 2, "1024");
  expect_error("plan gpt2 1xa100-40gb --beta1 1", 2, "--beta1");
  expect_error("plan gpt2 1xa100-40gb --dropout nan", 2, "--dropout");
  expect_error("plan gpt2 1xv100-32gb", 2, "bf16");
  expect_error("plan resnet50 1xa100-40gb --seq 8", 2, "no sequences");
}

// Experts are planned, but no kernel runs them yet.
TEST(Errors, PlannedButNotRunSaysWhichOp) {
  expect_error("train mixtral-tiny --steps 1 --global-batch 2", 2, "moe_router");
  expect_error("train deepseek-tiny --steps 1 --global-batch 2", 2, "split_columns");
  EXPECT_EQ(plimsoll("plan mixtral-tiny 1xcpu").exit_code, 0);
}

TEST(Errors, MalformedFilesAreNamed) {
  const Folder folder;
  testing::write_text(folder / "model.json", "{\"model_type\": \"gpt2\",");
  expect_error("plan " + (folder / "model.json") + " 1xcpu", 2, "model.json");
  testing::write_text(folder / "other.json", "{\"model_type\": \"t5\"}");
  expect_error("plan " + (folder / "other.json") + " 1xcpu", 2, "t5");
  testing::write_text(folder / "cluster.toml", "device = \"a100-40gb\"\nnodes = [");
  expect_error("plan gpt2-tiny " + (folder / "cluster.toml"), 2, "cluster.toml");
  expect_error("plan gpt2-tiny " + (folder / "absent.toml"), 2, "absent.toml");
  testing::write_text(folder / "job.toml", "model = \"gpt2-tiny\"\nsteps = \"ten\"\n");
  expect_error("train " + (folder / "job.toml"), 2, "steps");
  testing::write_text(folder / "job2.toml", "model = \"gpt2-tiny\"\nstepps = 3\n");
  expect_error("train " + (folder / "job2.toml"), 2, "stepps");
  testing::write_text(folder / "job3.toml", "model = \n");
  expect_error("train " + (folder / "job3.toml"), 2, "job3.toml");
  testing::write_text(folder / "job4.toml", "model = \"gpt2-tiny\"\nhelp = true\n");
  expect_error("train " + (folder / "job4.toml"), 2, "help");
  testing::write_text(folder / "plan.json", "{\"plimsoll_plan\": 7}");
  expect_error("simulate " + (folder / "plan.json"), 2, "plimsoll_plan");
  expect_error("simulate " + (folder / "absent.json"), 2, "absent.json");
  expect_error("train gpt2-tiny --plan " + (folder / "plan.json"), 2, "plimsoll_plan");
}

TEST(Errors, UnreadableDataIsNamed) {
  const Folder folder;
  expect_error("train gpt2-tiny --steps 1 --data " + (folder / "absent.txt"), 2, "absent.txt");
  testing::write_text(folder / "short.txt", "abc");
  expect_error("train gpt2-tiny --steps 1 --data " + (folder / "short.txt"), 2, "short.txt");
  testing::write_text(folder / "odd.bin", "abc");
  expect_error("train gpt2-tiny --steps 1 --data " + (folder / "odd.bin"), 2, "odd.bin");
  std::string tokens(2000, '\0');
  tokens[1001] = 1;  // token 500 is 256: outside the vocabulary
  testing::write_text(folder / "large.bin", tokens);
  expect_error("train gpt2-tiny --steps 1 --data " + (folder / "large.bin"), 2, "1000");
}

TEST(Errors, FullDiskEndsTheRun) {
  expect_error("plan gpt2-tiny 1xcpu --json /dev/full", 4, "/dev/full");
  expect_error("plan gpt2-tiny 1xcpu --csv /dev/full", 4, "/dev/full");
  expect_error("plan gpt2-tiny 1xcpu --json /nonexistent/plan.json", 4, "/nonexistent");
}

TEST(Errors, WhatDoesNotFitSaysWhy) {
  const auto outcome = plimsoll("plan gpt2 1xcpu --memory-limit 1GiB");
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.out, HasSubstr("DOES NOT FIT"));
  EXPECT_THAT(outcome.out, HasSubstr("16 bytes a parameter"));
  const auto json = plimsoll("plan gpt2 1xcpu --memory-limit 1GiB --json -");
  EXPECT_EQ(json.exit_code, 3);
  const auto parsed = nlohmann::json::parse(json.out);
  EXPECT_GT(parsed.at("why_not").at("over_bytes").get<int64_t>(), 0);
  EXPECT_EQ(parsed.at("model").at("parameters").get<int64_t>(), 124439808);
  expect_error("train gpt2-tiny --steps 1 --device-memory 1MiB", 3, "");
}

TEST(Errors, NaNEndsTheRunWithItsStep) {
  expect_error("train gpt2-tiny --steps 50 --global-batch 2 --learning-rate 1e30 --clip 0", 4,
               "step");
}

// Ctrl-C while training: a checkpoint is there and the exit code says so.
int interrupted_exit_code(int signal_number, const Folder& folder) {
  const std::string out = folder / "run";
  const pid_t child = fork();
  if (child == 0) {
    std::freopen("/dev/null", "w", stdout);
    std::freopen("/dev/null", "w", stderr);
    execl(PLIMSOLL_BINARY, PLIMSOLL_BINARY, "train", "gpt2-tiny", "--steps", "100000000",
          "--global-batch", "2", "--seq", "16", "--out", out.c_str(), nullptr);
    _exit(99);
  }
  for (int i = 0; i < 600; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (testing::read_text(out + "/metrics.csv").size() > 200) break;
  }
  kill(child, signal_number);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(Errors, InterruptionWritesACheckpoint) {
  for (const auto& [number, code] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
    const Folder folder;
    EXPECT_EQ(interrupted_exit_code(number, folder), code);
    EXPECT_FALSE(std::filesystem::is_empty(folder / "run/checkpoints"));
    const auto steps = testing::read_csv(folder / "run/metrics.csv").at("step").size();
    const auto resumed = plimsoll("train gpt2-tiny --global-batch 2 --seq 16 --steps " +
                                  std::to_string(steps + 2) + " --resume " + (folder / "run"));
    EXPECT_EQ(resumed.exit_code, 0) << resumed.error;
    const auto summary = nlohmann::json::parse(testing::read_text(folder / "run/summary.json"));
    EXPECT_GT(summary.at("resumed_from_step").get<int64_t>(), 0);
  }
}

}  // namespace
}  // namespace plimsoll
