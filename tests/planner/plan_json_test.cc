// Plan JSON: what is written reads back; what is wrong is named; no bytes crash the reader.
#include "base/error.h"
#include "planner/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>

namespace plimsoll {
namespace {

Plan small_plan() {
  Job job;
  job.global_batch = 8;
  job.seq = 32;
  return *search(load_model("llama-tiny"), parse_cluster("2xcpu"), job, {}, int64_t{1} << 30,
                 SearchObjective::kTime)
              .best;
}

std::string error_of(const std::string& text) {
  try {
    (void)parse_plan_json(text, "plan.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "";
}

TEST(PlanJson, WhatIsWrittenReadsBack) {
  const Plan plan = small_plan();
  const Plan read = parse_plan_json(plan_json(plan), "plan.json");
  EXPECT_EQ(read.strategy, plan.strategy);
  EXPECT_EQ(read.job, plan.job);
  EXPECT_EQ(read.memory_limit_bytes, plan.memory_limit_bytes);
  EXPECT_EQ(read.predicted.peak_bytes, plan.predicted.peak_bytes);
  EXPECT_EQ(read.predicted.step_seconds, plan.predicted.step_seconds);
  EXPECT_EQ(plan_json(read), plan_json(plan));
}

TEST(PlanJson, OneWordOfRecomputeStandsForAllLayers) {
  auto json = nlohmann::json::parse(plan_json(small_plan()));
  json["strategy"]["recompute"] = "full";
  EXPECT_EQ(parse_plan_json(json.dump(), "plan.json").strategy.recompute_text(), "full");
}

// A model is named after its file, and a file's name need not be UTF-8.
TEST(PlanJson, BytesThatAreNoTextAreReplaced) {
  Plan plan = small_plan();
  plan.model.name = "caf\xe9";
  const std::string text = plan_json(plan);
  EXPECT_EQ(parse_plan_json(text, "plan.json").model.name, "caf\xef\xbf\xbd");
}

TEST(PlanJson, MistakesAreNamed) {
  const auto good = nlohmann::json::parse(plan_json(small_plan()));
  const auto with = [&](const std::string& pointer, const nlohmann::json& value) {
    auto json = good;
    json[nlohmann::json::json_pointer(pointer)] = value;
    return error_of(json.dump());
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(error_of("{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of("[]"), HasSubstr("not an object"));
  EXPECT_THAT(with("/plimsoll_plan", 2), HasSubstr("reads plans of version 1"));
  EXPECT_THAT(with("/strategy/dp", "two"), HasSubstr("strategy.dp"));
  EXPECT_THAT(with("/strategy/dp", 1e30), HasSubstr("strategy.dp"));
  EXPECT_THAT(with("/strategy/dp", 1), HasSubstr("ranks"));
  EXPECT_THAT(with("/strategy/micro_batch", 0), HasSubstr("micro-batch"));
  EXPECT_THAT(with("/strategy/recompute", "some"), HasSubstr("recompute"));
  EXPECT_THAT(with("/job/precision", "fp7"), HasSubstr("job.precision"));
  EXPECT_THAT(with("/job/global_batch", -4), HasSubstr("global-batch"));
  // Looking at so deep a value once overflowed the stack.
  EXPECT_THAT(
      error_of("{\"strategy\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}"),
      HasSubstr("nested deeper"));
  EXPECT_THAT(with("/model/family", "rnn"), HasSubstr("model.family"));
  EXPECT_THAT(with("/model/layers", int64_t{1} << 60), HasSubstr("model.layers"));
  EXPECT_THAT(with("/model/hidden", 0), ::testing::Not(::testing::IsEmpty()));
  EXPECT_THAT(with("/cluster/text", "8xnothing"), HasSubstr("nothing"));
}

RC_GTEST_PROP(PlanJson, NoBytesCrashTheReader, ()) {
  static const std::string good = plan_json(small_plan());
  std::string text = good;
  const auto edits = *rc::gen::container<std::vector<std::pair<uint16_t, char>>>(
      rc::gen::arbitrary<std::pair<uint16_t, char>>());
  for (const auto& [at, byte] : edits) text[at % text.size()] = byte;
  try {
    (void)parse_plan_json(text, "plan.json");
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace plimsoll
