#include "planner/plan.h"

#include "costmodel/rank_simulator.h"
#include "planner/lower/lower.h"

#include <algorithm>

namespace plimsoll {

namespace {

// "backward of layer 5 (attention.backward)": where a program stands, in words.
std::string describe(const StepProgram& program, const std::string& phase,
                     const TimelinePoint& point) {
  if (point.position < 0) return "start";
  const Segment& segment =
      program.find_phase(phase)->segments[static_cast<size_t>(point.folded.segment)];
  const Instruction& at = segment.body[static_cast<size_t>(point.folded.index)];
  const std::string where = at.layer >= 0 ? fmt::format(" of layer {}", at.layer) : "";
  return fmt::format("{}{} ({})", pass_name(at.pass), where, at.op);
}

bool has_sequences(const StepProgram& program) {
  return program.header.hyperparameters.get_int("seq", 0) > 0;
}

DeviceFacts facts_of(const Cluster& cluster, const Job& job, const Strategy& strategy) {
  int communicators = 0;
  for (const int size : {strategy.dp, strategy.tp, strategy.pp, strategy.cp, strategy.ep}) {
    communicators += size > 1 ? 1 : 0;
  }
  // The groups "data", or "shard" and "replica" in place of one.
  if (strategy.cp * strategy.ep > 1 || strategy.shard_group > 0) ++communicators;
  return {.outside_bytes = cluster.device.outside_bytes(communicators),
          .peak_flops_per_second = peak_flops(cluster.device, job.precision)};
}

}  // namespace

std::vector<StepProgram> lower_plan(const ModelSpec& model, const Cluster& cluster, const Job& job,
                                    const Strategy& strategy) {
  return lower_stages(model, job, strategy, facts_of(cluster, job, strategy));
}

namespace {

// Of the stage with the largest peak.
void predict_memory(std::span<const StepProgram> stages, Prediction& prediction) {
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const StepProgram& program = stages[stage];
    const MemoryTimeline timeline = compute_timeline(program);
    prediction.stage_live_peak_bytes.push_back(timeline.live_peak_bytes());
    prediction.stage_arena_bytes.push_back(program.header.arena_bytes);
    prediction.stage_peak_bytes.push_back(program.peak_bytes());
    if (program.peak_bytes() <= prediction.peak_bytes) continue;
    const PhaseTimeline& phase = timeline.phases[static_cast<size_t>(timeline.peak_phase)];
    prediction.fullest_stage = static_cast<int>(stage);
    prediction.live_peak_bytes = timeline.live_peak_bytes();
    prediction.arena_bytes = program.header.arena_bytes;
    prediction.peak_bytes = program.peak_bytes();
    prediction.by_category = phase.peak.by_category;
    prediction.peak_phase = phase.phase;
    prediction.peak_instruction = describe(program, phase.phase, phase.peak);
  }
}

}  // namespace

Prediction predict(std::span<const StepProgram> stages, const Cluster& cluster, const Job& job) {
  Prediction prediction;
  predict_memory(stages, prediction);
  if (stages.size() == 1) {
    const SimulatedStep step = simulate(stages.front(), cluster);
    prediction.step_seconds = step.step_seconds;
    prediction.pass_seconds = step.pass_seconds;
    prediction.exposed_seconds = step.exposed_seconds;
  } else {
    const SimulatedRun run = simulate_ranks(stages, cluster);
    prediction.step_seconds = run.step_seconds;
    prediction.bubble = run.bubble_fraction();
    for (const SimulatedStage& stage : run.stages) {
      for (size_t i = 0; i < prediction.pass_seconds.size(); ++i) {
        prediction.pass_seconds[i] +=
            stage.pass_seconds[i] / static_cast<double>(run.stages.size());
      }
      prediction.exposed_seconds = std::max(prediction.exposed_seconds, stage.exposed_seconds);
    }
  }
  const StepProgram& first = stages.front();
  const double items = static_cast<double>(job.global_batch) *
                       static_cast<double>(has_sequences(first) ? job.seq : 1);
  prediction.tokens_per_second = items / prediction.step_seconds;
  double flops = 0;
  for (const StepProgram& program : stages) flops += program.header.model_flops;
  if (first.header.peak_flops_per_second > 0) {
    prediction.mfu = flops / (prediction.step_seconds * first.header.peak_flops_per_second *
                              static_cast<double>(stages.size()));
  }
  return prediction;
}

std::vector<StepProgram> stage_programs(const Plan& plan) {
  std::vector<StepProgram> stages = lower_plan(plan.model, plan.cluster, plan.job, plan.strategy);
  for (StepProgram& program : stages) {
    program.header.predicted_step_seconds = plan.predicted.step_seconds;
  }
  return stages;
}

std::vector<StepProgram> rank_programs(const Plan& plan) {
  std::vector<StepProgram> programs = lower_ranks(plan.model, plan.job, plan.strategy,
                                                  facts_of(plan.cluster, plan.job, plan.strategy));
  for (StepProgram& program : programs) {
    program.header.predicted_step_seconds = plan.predicted.step_seconds;
  }
  return programs;
}

}  // namespace plimsoll
