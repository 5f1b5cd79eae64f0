#include "planner/plan.h"

#include "planner/lower/lower.h"

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

}  // namespace

StepProgram lower_plan(const ModelSpec& model, const Cluster& cluster, const Job& job,
                       const Strategy& strategy) {
  const int communicators = strategy.dp > 1 ? 1 : 0;
  return lower(model, job, strategy,
               {.outside_bytes = cluster.device.outside_bytes(communicators),
                .peak_flops_per_second = peak_flops(cluster.device, job.precision)});
}

Prediction predict(const StepProgram& program, const Cluster& cluster, const Job& job) {
  Prediction prediction;
  const MemoryTimeline timeline = compute_timeline(program);
  const PhaseTimeline& phase = timeline.phases[static_cast<size_t>(timeline.peak_phase)];
  prediction.live_peak_bytes = timeline.live_peak_bytes();
  prediction.arena_bytes = program.header.arena_bytes;
  prediction.peak_bytes = program.peak_bytes();
  prediction.by_category = phase.peak.by_category;
  prediction.peak_phase = phase.phase;
  prediction.peak_instruction = describe(program, phase.phase, phase.peak);

  const SimulatedStep step = simulate(program, cluster);
  prediction.step_seconds = step.step_seconds;
  prediction.pass_seconds = step.pass_seconds;
  prediction.exposed_seconds = step.exposed_seconds;
  const double items = static_cast<double>(job.global_batch) *
                       static_cast<double>(has_sequences(program) ? job.seq : 1);
  prediction.tokens_per_second = items / step.step_seconds;
  if (program.header.peak_flops_per_second > 0) {
    prediction.mfu =
        program.header.model_flops / (step.step_seconds * program.header.peak_flops_per_second);
  }
  return prediction;
}

std::vector<StepProgram> rank_programs(const Plan& plan) {
  StepProgram first = lower_plan(plan.model, plan.cluster, plan.job, plan.strategy);
  first.header.predicted_step_seconds = plan.predicted.step_seconds;
  std::vector<StepProgram> programs;
  for (int rank = 0; rank < plan.strategy.num_ranks(); ++rank) {
    programs.push_back(for_rank(first, rank));
  }
  return programs;
}

}  // namespace plimsoll
