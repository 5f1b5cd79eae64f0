#include "planner/framework.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(Framework, SetsTheTypesOfAPrecision) {
  Job job;
  job.precision = DType::kF16;
  apply_profile(find_profile("megatron"), job);
  EXPECT_EQ(job.gradient_type, DType::kF32);
  EXPECT_TRUE(job.master_weights);
  EXPECT_EQ(state_bytes_per_parameter(job), 18);
  job.precision = DType::kF32;
  apply_profile(find_profile("megatron"), job);
  EXPECT_FALSE(job.master_weights);
  EXPECT_EQ(state_bytes_per_parameter(job), 16);
}

// The profile and the job count the same bytes.
TEST(Framework, JobsAndProfilesAgree) {
  for (const Profile& profile : all_profiles()) {
    for (const DType precision : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
      Job job;
      job.precision = precision;
      apply_profile(profile, job);
      EXPECT_EQ(state_bytes_per_parameter(job), bytes_per_parameter(profile, precision).total());
    }
  }
}

// plimsoll's own types are those that a precision sets without a profile.
TEST(Framework, PlimsollIsTheDefault) {
  for (const char* precision : {"fp32", "bf16", "fp16", "f64"}) {
    Job job;
    set_precision(job, precision);
    Job with_profile = job;
    apply_profile(find_profile("plimsoll"), with_profile);
    EXPECT_EQ(job, with_profile) << precision;
  }
}

TEST(Framework, SaysWhatIsNotRun) {
  const Profile& own = find_profile("plimsoll");
  const Profile& megatron = find_profile("megatron");
  Strategy strategy;
  strategy.dp = 4;
  strategy.recompute = {Recompute::kFull, Recompute::kNone};
  EXPECT_EQ(why_not_run(own, strategy), "");
  strategy.ep = 2;
  EXPECT_EQ(why_not_run(own, strategy), "plimsoll runs no expert parallelism (--ep 2)");
  strategy.ep = 1;
  strategy.tp = 2;
  EXPECT_EQ(why_not_run(own, strategy), "");
  EXPECT_EQ(why_not_run(megatron, strategy), "");
  strategy.zero = 1;
  strategy.sequence_parallel = true;
  strategy.pp = 4;
  EXPECT_EQ(why_not_run(megatron, strategy), "");
  strategy.schedule = "zb-h1";
  EXPECT_EQ(why_not_run(megatron, strategy), "megatron runs no schedule 'zb-h1'");
  strategy.schedule = "interleaved";
  strategy.zero = 3;
  EXPECT_EQ(why_not_run(megatron, strategy), "megatron runs no ZeRO stage 3");
  strategy.cp = 2;
  EXPECT_EQ(why_not_run(megatron, strategy), "megatron runs no context parallelism (--cp 2)");
  Profile uniform = own;
  uniform.runs.mixed_recompute = false;
  Strategy mixed;
  mixed.recompute = {Recompute::kFull, Recompute::kNone};
  EXPECT_EQ(why_not_run(uniform, mixed), "plimsoll runs the same recompute in all layers alone");
  uniform.runs.recompute = {"none"};
  EXPECT_EQ(why_not_run(uniform, mixed), "plimsoll runs no recompute 'full'");
}

}  // namespace
}  // namespace plimsoll
