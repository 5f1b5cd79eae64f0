// Lowering: every plan verifies, its bytes add up, and recompute and accumulation do what they say.
#include "planner/lower/lower.h"

#include "program/timeline.h"
#include "program/verify.h"
#include "tests/planner/random_model.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

namespace plimsoll {
namespace {

std::string first_violation(const StepProgram& program) {
  const std::vector<Violation> violations = verify(program);
  return violations.empty() ? "" : violations.front().rule + ": " + violations.front().message;
}

Strategy uniform(const ModelSpec& model, int64_t micro_batch, Recompute recompute, int dp = 1) {
  Strategy strategy;
  strategy.dp = dp;
  strategy.micro_batch = micro_batch;
  strategy.recompute.assign(static_cast<size_t>(model.layers), recompute);
  return strategy;
}

Job small_job(int64_t batch, int64_t seq) {
  Job job;
  job.global_batch = batch;
  job.seq = seq;
  return job;
}

const Segment& step_segment(const StepProgram& program, std::string_view name) {
  for (const Segment& segment : program.find_phase("step")->segments) {
    if (segment.name == name) return segment;
  }
  throw std::runtime_error("no segment");
}

int64_t count_pass(const StepProgram& program, Pass pass) {
  int64_t count = 0;
  for (const Instruction& instruction : step_segment(program, "micro-batches").body) {
    count += instruction.pass == pass ? 1 : 0;
  }
  return count;
}

RC_GTEST_PROP(Lower, AnyPlanVerifies, ()) {
  const testing::RandomCase c = *testing::random_case();
  const StepProgram program = lower(c.model, c.job, c.strategy, {});
  RC_ASSERT(first_violation(program) == "");
  const MemoryTimeline timeline = compute_timeline(program);
  RC_ASSERT(program.header.arena_bytes >= timeline.live_peak_bytes());
  for (const PhaseTimeline& phase : timeline.phases) {
    int64_t sum = 0;
    for (const int64_t bytes : phase.peak.by_category) sum += bytes;
    RC_ASSERT(sum == phase.peak.live_bytes);
  }
}

// Model states in closed form: what lives across steps and the gradients.
RC_GTEST_PROP(Lower, ModelStatesAreTheClosedForm, ()) {
  testing::RandomCase c = *testing::random_case();
  const StepProgram program = lower(c.model, c.job, c.strategy, {});
  const int64_t parameters = program.header.hyperparameters.get_int("parameters");
  int64_t weights = 0;
  int64_t moments = 0;
  for (const Buffer& buffer : program.buffers) {
    if (!buffer.persistent || !buffer.logical || buffer.logical->role == "state") continue;
    (buffer.category == Category::kParameters ? weights : moments) += buffer.bytes();
  }
  RC_ASSERT(weights == 4 * parameters);
  RC_ASSERT(moments == (state_bytes_per_parameter(c.job) - 8) * parameters);
}

TEST(Lower, OneMicroBatchOfAFoldedStepIsAllThereIs) {
  const ModelSpec model = load_model("gpt2-tiny");
  const StepProgram few = lower(model, small_job(8, 32), uniform(model, 1, Recompute::kNone), {});
  const StepProgram many =
      lower(model, small_job(768, 32), uniform(model, 1, Recompute::kNone), {});
  EXPECT_EQ(step_segment(few, "micro-batches").body.size(),
            step_segment(many, "micro-batches").body.size());
  EXPECT_EQ(step_segment(many, "micro-batches").repeat, 768);
  EXPECT_EQ(few.header.arena_bytes, many.header.arena_bytes);
}

TEST(Lower, FullRecomputeOfEightLayersNeedsUnderFourFifths) {
  ModelSpec model = load_model("gpt2-tiny");
  model.layers = 8;
  const Job job = small_job(8, 64);
  const StepProgram none = lower(model, job, uniform(model, 8, Recompute::kNone), {});
  const StepProgram full = lower(model, job, uniform(model, 8, Recompute::kFull), {});
  EXPECT_LT(static_cast<double>(full.peak_bytes()), 0.8 * static_cast<double>(none.peak_bytes()));
}

// Of naive attention the probabilities are made again, [heads, seq, seq] of each sample and layer.
TEST(Lower, SelectiveRecomputeKeepsAllButTheCoreOfAttention) {
  ModelSpec model = load_model("gpt2-tiny");
  model.layers = 8;
  Strategy strategy = uniform(model, 2, Recompute::kNone);
  strategy.attention = "naive";
  const StepProgram none = lower(model, small_job(2, 64), strategy, {});
  strategy.recompute.assign(8, Recompute::kSelective);
  const StepProgram selective = lower(model, small_job(2, 64), strategy, {});
  EXPECT_EQ(strategy.recompute_text(), "selective");
  EXPECT_EQ(count_pass(selective, Pass::kRecompute), 8);
  for (const Instruction& instruction : step_segment(selective, "micro-batches").body) {
    EXPECT_TRUE(instruction.pass != Pass::kRecompute || instruction.op == "attention");
  }
  const auto kept = [](const StepProgram& program) {
    std::set<int> made;
    std::set<int> read;
    for (const Instruction& i : step_segment(program, "micro-batches").body) {
      if (i.pass == Pass::kForward) made.insert(i.outputs.begin(), i.outputs.end());
      if (i.pass == Pass::kBackward) read.insert(i.inputs.begin(), i.inputs.end());
    }
    int64_t bytes = 0;
    for (const int id : made) {
      if (id >= 0 && read.count(id) != 0) bytes += program.buffers[static_cast<size_t>(id)].bytes();
    }
    return bytes;
  };
  EXPECT_EQ(kept(none) - kept(selective), 8 * 2 * model.heads * 64 * 64 * 4);
  strategy.recompute[7] = Recompute::kNone;
  strategy.recompute[0] = Recompute::kFull;
  EXPECT_EQ(strategy.recompute_text(), "full on 1, selective on 6 of 8 layers");
}

TEST(Lower, RecomputeRepeatsForwardCallsOfTheLayerAlone) {
  const ModelSpec model = load_model("gpt2-tiny");
  const StepProgram none = lower(model, small_job(2, 16), uniform(model, 2, Recompute::kNone), {});
  Strategy strategy = uniform(model, 2, Recompute::kNone);
  strategy.recompute[0] = Recompute::kFull;
  const StepProgram one = lower(model, small_job(2, 16), strategy, {});
  EXPECT_EQ(count_pass(none, Pass::kRecompute), 0);
  EXPECT_EQ(count_pass(one, Pass::kForward), count_pass(none, Pass::kForward));
  EXPECT_EQ(count_pass(one, Pass::kBackward), count_pass(none, Pass::kBackward));
  std::multiset<std::string> again;
  for (const Instruction& instruction : step_segment(one, "micro-batches").body) {
    if (instruction.pass != Pass::kRecompute) continue;
    EXPECT_EQ(instruction.layer, 0);
    again.insert(instruction.op);
  }
  // Everything but the layer's last projection and residual, whose results leave the layer.
  const std::multiset<std::string> expected = {"attention", "gelu",   "layer_norm", "layer_norm",
                                               "linear",    "linear", "linear",     "residual"};
  EXPECT_EQ(again, expected);
}

TEST(Lower, TiedEmbeddingHasOneAccumulatorAUseOnceThereAreMoreMicroBatches) {
  const ModelSpec model = load_model("gpt2-tiny");
  const auto gradients_of_table = [&](int64_t micro_batch) {
    const StepProgram program =
        lower(model, small_job(4, 16), uniform(model, micro_batch, Recompute::kNone), {});
    int count = 0;
    for (const Buffer& buffer : program.buffers) {
      if (buffer.category == Category::kGradients && buffer.name.rfind("d.wte.weight", 0) == 0) {
        ++count;
      }
    }
    return count;
  };
  EXPECT_EQ(gradients_of_table(4), 1);
  EXPECT_EQ(gradients_of_table(2), 2);
}

TEST(Lower, BatchNormStatisticsAreNeverRepeated) {
  const ModelSpec model = load_model("resnet-tiny");
  const StepProgram program =
      lower(model, small_job(4, 0), uniform(model, 2, Recompute::kFull), {});
  for (const Instruction& instruction : step_segment(program, "micro-batches").body) {
    if (instruction.op == "batch_norm.statistics") {
      EXPECT_EQ(instruction.pass, Pass::kForward);
    }
  }
}

TEST(Lower, RanksDifferInTheirHeaderAlone) {
  const ModelSpec model = load_model("gpt2-tiny");
  const StepProgram first =
      lower(model, small_job(8, 16), uniform(model, 2, Recompute::kNone, 2), {});
  const StepProgram second = for_rank(first, 1);
  EXPECT_EQ(second.buffers, first.buffers);
  EXPECT_EQ(second.phases, first.phases);
  EXPECT_EQ(second.header.samples.first, 4);
  EXPECT_EQ(second.header.coordinates.dp, 1);
}

TEST(Lower, EveryPassLeavesAProgramThatCanBeLookedAt) {
  const ModelSpec model = load_model("llama-tiny");
  std::vector<std::string> passes;
  (void)lower(model, small_job(4, 16), uniform(model, 1, Recompute::kFull, 2), {},
              [&](const std::string& pass, const StepProgram& program) {
                passes.push_back(pass);
                EXPECT_FALSE(program.phases.empty());
              });
  EXPECT_EQ(passes, (std::vector<std::string>{"micro-batch", "recompute", "accumulation",
                                              "reduction", "update", "initialise", "in-place",
                                              "schedule", "placement"}));
}

TEST(Lower, ModelFlopsFollowTheConvention) {
  const ModelSpec model = load_model("gpt2");
  Job job = small_job(2, 1024);
  EXPECT_DOUBLE_EQ(model_flops(model, job, active_parameters(model), 0),
                   2048.0 * (6.0 * 124439808 + 12.0 * 12 * 1024 * 768));
}

TEST(Lower, WhatThisVersionDoesNotSplitIsRefused) {
  const ModelSpec model = load_model("gpt2-tiny");
  Strategy strategy = uniform(model, 1, Recompute::kNone);
  strategy.cp = 2;
  EXPECT_THROW((void)lower(model, small_job(4, 16), strategy, {}), Error);
  strategy.cp = 1;
  strategy.micro_batch = 3;
  EXPECT_THROW((void)lower(model, small_job(4, 16), strategy, {}), Error);
}

}  // namespace
}  // namespace plimsoll
