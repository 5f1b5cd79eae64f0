// plimsoll explain through the binary: exit codes, JSON, and what it prints.
#include "tests/cli/run_binary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace plimsoll {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::plimsoll;

constexpr const char* kTooLarge =
    "explain gpt2 1xt4 --precision fp32 --global-batch 64 --micro-batch 64 --recompute none";

TEST(Explain, ExitCodeSaysWhetherItFits) {
  EXPECT_EQ(plimsoll("explain gpt2-tiny 1xa100-40gb --global-batch 4").exit_code, 0);
  EXPECT_EQ(plimsoll(kTooLarge).exit_code, 3);
  EXPECT_EQ(plimsoll("explain gpt2-tiny 1xa100-40gb --micro-batch 3").exit_code, 2);
  EXPECT_EQ(plimsoll("explain gpt2-tiny").exit_code, 2);
  EXPECT_EQ(plimsoll("explain gpt2-tiny 1xcpu --tp 2").exit_code, 2);
}

TEST(Explain, AdvisedFlagsFitAndGiveTheAdvisedFigures) {
  const auto outcome = plimsoll(std::string(kTooLarge) + " --json -");
  ASSERT_EQ(outcome.exit_code, 3) << outcome.error;
  const json advice = json::parse(outcome.out);
  ASSERT_FALSE(advice["changes"].empty());
  for (const json& change : advice["changes"]) {
    const auto& add = change["add"];
    const auto adds = [&](const std::string& option) {
      return std::any_of(add.begin(), add.end(), [&](const json& flag) {
        return flag.get<std::string>().rfind(option + " ", 0) == 0;
      });
    };
    std::string command = "explain gpt2 1xt4 --global-batch 64";
    if (!adds("--precision")) command += " --precision fp32";
    if (!adds("--micro-batch")) command += " --micro-batch 64";
    if (!adds("--recompute") && change["drop"].empty()) command += " --recompute none";
    for (const json& flag : add) command += " " + flag.get<std::string>();
    const auto changed = plimsoll(command + " --json -");
    ASSERT_EQ(changed.exit_code, 0) << command << "\n" << changed.error;
    const json result = json::parse(changed.out);
    EXPECT_EQ(result["predicted"]["peak_bytes"], change["predicted"]["peak_bytes"]) << command;
    EXPECT_EQ(result["predicted"]["step_seconds"], change["predicted"]["step_seconds"]) << command;
  }
}

TEST(Explain, JsonHasItsKeys) {
  const auto outcome = plimsoll(std::string(kTooLarge) + " --json -");
  const json advice = json::parse(outcome.out);
  for (const char* key : {"model",   "cluster",       "job",          "limit_bytes",  "fits",
                          "planned", "configuration", "predicted",    "why_not",      "peak",
                          "ladder",  "together",      "all_together", "changes",      "largest",
                          "devices", "hardware",      "rejected",     "alternatives", "search"}) {
    EXPECT_TRUE(advice.contains(key)) << key;
  }
  EXPECT_EQ(
      advice["why_not"]["over_bytes"].get<int64_t>(),
      advice["predicted"]["peak_bytes"].get<int64_t>() - advice["limit_bytes"].get<int64_t>());
  int64_t sum = advice["peak"]["packing_bytes"].get<int64_t>() +
                advice["peak"]["outside_bytes"].get<int64_t>();
  for (const json& buffer : advice["peak"]["buffers"]) sum += buffer["bytes"].get<int64_t>();
  EXPECT_EQ(sum, advice["predicted"]["peak_bytes"].get<int64_t>());
  const json fits =
      json::parse(plimsoll("explain gpt2-tiny 1xa100-40gb --global-batch 4 --json -").out);
  EXPECT_FALSE(fits.contains("why_not"));
  EXPECT_TRUE(fits["fits"].get<bool>());
}

TEST(Explain, PlainLinesOfEightyColumns) {
  setenv("LC_ALL", "C", 1);
  for (const char* arguments :
       {kTooLarge, "explain llama3-8b 8xh200", "explain llama2-7b 8xa100-80gb --tp 1 --pp 1 --zero 0",
        "explain resnet50 1xt4 --precision fp32 --global-batch 512"}) {
    const auto outcome = plimsoll(arguments);
    std::istringstream lines(outcome.out);
    std::string line;
    int count = 0;
    for (; std::getline(lines, line); ++count) {
      EXPECT_LE(line.size(), 80U) << line;
      EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) { return c >= ' '; })) << line;
      EXPECT_TRUE(line.empty() || line.back() != ' ') << line;
    }
    EXPECT_GT(count, 40);
    EXPECT_EQ(outcome.error, "");
  }
  unsetenv("LC_ALL");
}

TEST(Explain, WhatDoesNotFitIsToldInWords) {
  const auto outcome = plimsoll("explain llama2-7b 8xa100-80gb --tp 1 --pp 1 --zero 0");
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.out, HasSubstr("DOES NOT FIT"));
  EXPECT_THAT(outcome.out, HasSubstr("Data parallelism cannot help"));
  EXPECT_THAT(outcome.out, HasSubstr("--optimizer sgd"));
  EXPECT_THAT(outcome.out, HasSubstr("--zero 1"));
}

}  // namespace
}  // namespace plimsoll
