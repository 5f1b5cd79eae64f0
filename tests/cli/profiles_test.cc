// The command that shows framework profiles.
#include "tests/cli/run_binary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using testing::plimsoll;

TEST(ProfilesCommand, ListsAndShows) {
  const auto list = plimsoll("profiles");
  EXPECT_EQ(list.exit_code, 0);
  EXPECT_THAT(list.out, HasSubstr("megatron"));
  EXPECT_THAT(list.out, HasSubstr("plimsoll"));
  const auto one = plimsoll("profiles megatron");
  EXPECT_EQ(one.exit_code, 0);
  EXPECT_THAT(one.out, HasSubstr("states.half.gradients  f32\n"));
  EXPECT_THAT(one.out, HasSubstr("efficiencies.matmul  "));
  EXPECT_THAT(one.out, HasSubstr("runs.offload  -\n"));
}

TEST(ProfilesCommand, WritesJson) {
  const auto one = nlohmann::json::parse(plimsoll("profiles megatron --json -").out);
  EXPECT_EQ(one["bytes_per_parameter"]["half"], 18);
  EXPECT_EQ(one["save"]["softmax_dropout"], true);
  const auto all = nlohmann::json::parse(plimsoll("profiles --json -").out);
  ASSERT_GE(all.size(), 2U);
  EXPECT_EQ(all[0]["name"], "megatron");
}

TEST(ProfilesCommand, AWrongNameIsAnError) {
  const auto wrong = plimsoll("profiles megatorn");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.error, HasSubstr("did you mean 'megatron'?"));
}

}  // namespace
}  // namespace plimsoll
