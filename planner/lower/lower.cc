#include "planner/lower/lower.h"

#include "base/error.h"
#include "models/autodiff.h"
#include "models/shard.h"
#include "models/stage.h"
#include "planner/lower/logical.h"
#include "planner/lower/passes.h"
#include "planner/lower/replicas.h"
#include "planner/placement.h"
#include "planner/schedule.h"

#include <map>
#include <optional>

namespace plimsoll {

namespace {

BuildOptions build_options(const Job& job, const Strategy& strategy, bool training) {
  BuildOptions options;
  options.micro_batch = strategy.micro_batch;
  options.seq = job.seq;
  options.float_type = job.precision;
  options.training = training;
  options.dropout = job.dropout;
  options.attention = strategy.attention;
  options.loss_chunks = strategy.loss_chunks;
  options.expert_parallel = strategy.ep;
  return options;
}

double pass_flops(const StepProgram& program, bool forward_alone) {
  double sum = 0;
  for (const Segment& segment : program.find_phase("step")->segments) {
    for (const Instruction& instruction : segment.body) {
      if (forward_alone && instruction.pass != Pass::kForward) continue;
      sum += instruction.flops * static_cast<double>(segment.repeat);
    }
  }
  return sum;
}

void fill_header(StepProgram& program, const ModelSpec& model, const Job& job,
                 const Strategy& strategy, const DeviceFacts& device, int64_t num_parameters,
                 int64_t num_active_parameters) {
  Header& header = program.header;
  header.model = model.name;
  header.coordinates.dp_size = strategy.dp;
  header.coordinates.tp_size = strategy.tp;
  header.coordinates.pp_size = strategy.pp;
  header.coordinates.cp_size = strategy.cp;
  header.coordinates.ep_size = strategy.ep;
  header.samples = {.global_batch = job.global_batch,
                    .micro_batch = strategy.micro_batch,
                    .first = 0,
                    .per_microbatch = strategy.micro_batch,
                    .num_microbatches = accumulation_steps(strategy, job)};
  header.outside_bytes = device.outside_bytes;
  header.peak_flops_per_second = device.peak_flops_per_second;
  const double samples_a_rank = static_cast<double>(job.global_batch) / strategy.num_sample_ranks();
  // A vision model's convention counts the FLOPs of the stage itself, a transformer's are shared.
  const int sharers = job.seq > 0 ? strategy.num_ranks() : strategy.dp;
  header.model_flops =
      model_flops(model, job, num_active_parameters, pass_flops(program, true) / samples_a_rank) /
      sharers;
  header.hardware_flops = pass_flops(program, false);
  Attributes& facts = header.hyperparameters;
  facts.set("parameters", num_parameters);
  facts.set("layers", model.layers);
  facts.set("objective", std::string(objective_name(model.objective)));
  facts.set("vocabulary", model.vocabulary);
  facts.set("seq", job.seq);
  facts.set("float", std::string(dtype_name(job.precision)));
  facts.set("optimizer", std::string(optimizer_name(job.optimizer)));
  facts.set("beta1", job.beta1);
  facts.set("beta2", job.beta2);
  facts.set("eval_batches", job.eval_batches);
  const int64_t small_batches =
      strategy.dp > 1 ? strategy.dp : program.header.samples.num_microbatches;
  if (program.find_buffer(kNoiseBuffer) != kNoBuffer) {
    facts.set("noise_small_batches", small_batches);
  }
}

}  // namespace

double model_flops(const ModelSpec& model, const Job& job, int64_t num_active_parameters,
                   double forward_flops_a_sample) {
  const auto batch = static_cast<double>(job.global_batch);
  switch (model.objective) {
    case Objective::kNextToken:
    case Objective::kMaskedToken: {
      const double per_token = 6.0 * static_cast<double>(num_active_parameters) +
                               12.0 * static_cast<double>(model.layers) *
                                   static_cast<double>(job.seq) *
                                   static_cast<double>(attention_width(model));
      return per_token * batch * static_cast<double>(job.seq);
    }
    case Objective::kClasses:
    case Objective::kRegression:
      return 3.0 * forward_flops_a_sample * batch;
  }
  return 0;
}

StageLowering::StageLowering(const ModelSpec& model, const Job& job, const Strategy& strategy,
                             const DeviceFacts& device)
    : model_(model), job_(job), strategy_(strategy), device_(device) {
  check_job(model, job);
  check_strategy(model, job, strategy);
  const ShardOptions shares{.tp = strategy.tp, .sequence_parallel = strategy.sequence_parallel};
  const auto of_rank = [&](Graph graph) {
    return strategy.tp == 1 ? std::move(graph) : shard(graph, shares);
  };
  Graph training = build_model(model, build_options(job, strategy, true));
  // The graph of an expert-parallel rank has its own experts alone.
  num_parameters_ = strategy.ep == 1 ? training.num_parameters() : count_parameters(model);
  num_active_parameters_ =
      strategy.ep == 1 ? active_parameters(training, model) : active_parameters(model);
  training_.emplace(of_rank(std::move(training)));
  if (job.eval_batches > 0) {
    evaluation_.emplace(of_rank(build_model(model, build_options(job, strategy, false))));
  }
}

StepProgram StageLowering::unplaced(int stage, const PassObserver& observer) const {
  const Strategy& strategy = strategy_;
  const StageBounds bounds = stage_bounds(model_, strategy);
  const auto chunks_of = [&](const Graph& graph) {
    if (strategy.pp == 1) return std::vector<Graph>{graph};
    std::vector<Graph> chunks;
    for (int chunk = 0; chunk < strategy.interleave; ++chunk) {
      chunks.push_back(take_stage(graph, bounds, chunk * strategy.pp + stage));
    }
    return chunks;
  };
  const std::vector<Graph> graphs = chunks_of(*training_);
  lowering::Draft draft;
  draft.model = &model_;
  draft.job = &job_;
  draft.strategy = &strategy;
  draft.stage = stage;
  const auto done = [&](const char* pass) {
    if (observer) observer(pass, lowering::to_program(draft));
  };
  lowering::declare_persistent(draft, graphs);
  if (strategy.pp > 1) lowering::mark_shared(draft, shared_parameters(*training_, bounds));
  std::vector<TrainingGraph> training;
  const bool split_backward =
      strategy.pp > 1 && splits_backward(*parse_schedule_kind(strategy.schedule));
  for (const Graph& graph : graphs) {
    training.push_back(differentiate(graph, job_.gradient_type, split_backward));
  }
  lowering::add_micro_batch(draft, training, "step");
  done("micro-batch");
  lowering::add_recompute(draft, "step");
  done("recompute");
  if (strategy.zero >= 2) {
    lowering::add_sharded_accumulation(draft, "step");
  } else {
    lowering::add_accumulation(draft, "step");
  }
  done("accumulation");
  lowering::add_reduction(draft, "step");
  done("reduction");
  lowering::add_update(draft, "step");
  done("update");
  // With several ranks every step measures the noise; on one, its micro-batches do in a phase of
  // their own, because that takes a second set of gradients.
  if (job_.measure_noise && strategy.num_ranks() == 1 && draft.num_microbatches() > 1) {
    lowering::add_micro_batch(draft, training, "step_noise");
    lowering::add_recompute(draft, "step_noise");
    lowering::add_measured_accumulation(draft, "step_noise");
    lowering::add_update(draft, "step_noise");
    done("noise");
  }
  if (evaluation_) {
    std::vector<TrainingGraph> forward;
    for (const Graph& graph : chunks_of(*evaluation_)) forward.push_back(forward_only(graph));
    lowering::add_evaluation(draft, forward);
    done("evaluation");
  }
  if (strategy.zero >= 3) {
    lowering::shard_parameters(draft);
    done("sharding");
  }
  lowering::add_initialise(draft);
  done("initialise");
  lowering::share_in_place(draft);
  done("in-place");
  lowering::add_schedule(draft);
  lowering::order_streams(draft);
  done("schedule");
  StepProgram program = lowering::to_program(draft);
  fill_header(program, model_, job_, strategy, device_, num_parameters_, num_active_parameters_);
  program.header.coordinates.pp = stage;
  program.header.rank = stage * strategy.num_replicas() * strategy.tp;
  return program;
}

StepProgram StageLowering::placed(int stage, const PassObserver& observer) const {
  StepProgram program = unplaced(stage, observer);
  place_buffers(program);
  if (observer) observer("placement", program);
  return program;
}

StepProgram StageLowering::of_rank(const StepProgram& program, int data_place, int tp_place) const {
  StepProgram other = for_rank(program, data_place);
  if (strategy_.tp == 1 && strategy_.ep == 1) return other;
  other.header.rank += tp_place;
  other.header.coordinates.tp = tp_place;
  std::map<std::string_view, const Tensor*> parameters;
  for (const Tensor& tensor : training_->tensors()) {
    if (tensor.parameter) parameters.emplace(tensor.name, &tensor);
  }
  for (Buffer& buffer : other.buffers) {
    if (!buffer.logical) continue;
    // States of the optimizer have the parameter's name and their role behind it.
    const auto own = parameters.find(buffer.name);
    const std::string suffix = own == parameters.end() ? "." + buffer.logical->role : "";
    const auto parameter = parameters.find(
        std::string_view(buffer.name).substr(0, buffer.name.size() - suffix.size()));
    PLIMSOLL_CHECK(parameter != parameters.end(), "no parameter of {}", buffer.name);
    lowering::set_parts(*buffer.logical, *parameter->second, tp_place, suffix);
    const int64_t first =
        other.header.coordinates.ep * (model_.experts ? model_.experts->routed : 0) / strategy_.ep;
    if (lowering::is_expert(*parameter->second))
      lowering::count_experts_from(*buffer.logical, first);
  }
  return other;
}

std::vector<StepProgram> lower_ranks(const ModelSpec& model, const Job& job,
                                     const Strategy& strategy, const DeviceFacts& device) {
  const StageLowering lowering(model, job, strategy, device);
  std::vector<StepProgram> programs;
  for (int stage = 0; stage < strategy.pp; ++stage) {
    const StepProgram first = lowering.placed(stage);
    for (int place = 0; place < strategy.num_replicas(); ++place) {
      for (int tp = 0; tp < strategy.tp; ++tp) {
        programs.push_back(lowering.of_rank(first, place, tp));
      }
    }
  }
  return programs;
}

StepProgram lower(const ModelSpec& model, const Job& job, const Strategy& strategy,
                  const DeviceFacts& device, const PassObserver& observer) {
  return StageLowering(model, job, strategy, device).placed(0, observer);
}

std::vector<StepProgram> lower_stages(const ModelSpec& model, const Job& job,
                                      const Strategy& strategy, const DeviceFacts& device) {
  const StageLowering lowering(model, job, strategy, device);
  std::vector<StepProgram> programs;
  for (int stage = 0; stage < strategy.pp; ++stage) {
    programs.push_back(lowering.placed(stage));
  }
  return programs;
}

StepProgram for_rank(const StepProgram& program, int place) {
  StepProgram other = program;
  Header& header = other.header;
  Coordinates& at = header.coordinates;
  header.rank = program.header.rank + place * at.tp_size;
  at.cp = place % at.cp_size;
  at.ep = place / at.cp_size % at.ep_size;
  at.dp = place / at.cp_size / at.ep_size;
  header.samples.first = (int64_t{at.dp} * at.ep_size + at.ep) * header.samples.per_microbatch *
                         header.samples.num_microbatches;
  return other;
}

}  // namespace plimsoll
