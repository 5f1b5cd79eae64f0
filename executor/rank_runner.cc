#include "executor/rank_runner.h"

#include "base/error.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace plimsoll {

namespace {

constexpr const char* kStep = "step";
constexpr const char* kStepNoise = "step_noise";  // a step that measures the gradient noise
constexpr const char* kEvaluate = "evaluate";
constexpr const char* kInitialise = "initialise";

// Global batches that the evaluation goes through: its micro-batches over those of a step. A stage
// in the middle of a pipeline loads none of them itself.
int64_t num_eval_batches(const StepProgram& program) {
  int64_t microbatches = 0;
  const Phase* phase = program.find_phase(kEvaluate);
  if (phase == nullptr) return 0;
  for (const Segment& segment : phase->segments) {
    for (const Instruction& instruction : segment.body) {
      const int64_t last = segment.first_microbatch + instruction.microbatch +
                           (segment.repeat - 1) * segment.microbatch_stride;
      microbatches = std::max(microbatches, last + 1);
    }
  }
  return ceil_div(microbatches, program.header.samples.num_microbatches);
}

double median_after_warmup(std::vector<double> seconds) {
  if (seconds.empty()) return 0;
  const size_t warmup = std::min<size_t>(2, seconds.size() - 1);
  seconds.erase(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(warmup));
  const size_t middle = seconds.size() / 2;
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(middle),
                   seconds.end());
  return seconds[middle];
}

Operand required_scalar(const Interpreter& interpreter, const char* name) {
  const int buffer = interpreter.program().find_buffer(name);
  if (buffer == kNoBuffer) return {};
  const Operand operand = interpreter.operand(buffer);
  if (operand.dtype != DType::kF64 || operand.size() != 1) {
    throw bad_input(fmt::format("buffer '{}' is not f64 [1]", name));
  }
  return operand;
}

}  // namespace

RankRunner::RankRunner(const StepProgram& program, Communicator& communicator, SharedRun& shared,
                       int num_threads)
    : program_(program),
      communicator_(communicator),
      shared_(shared),
      options_(shared.options),
      num_threads_(num_threads),
      noise_(shared.options.noise_decay) {}

RankRunner::~RankRunner() = default;

void RankRunner::run() {
  prepare();
  start_values();
  communicator_.barrier();
  while (state_.step < options_.steps && !stop_ && !interrupted()) train_step();
  if (result_.stop == StopReason::kInterrupted) {
    save();
  } else {
    // A run resumed at its last step has measured nothing yet.
    if (evaluates_ && !result_.validation_loss) judge_validation(evaluate());
    if (options_.checkpoint_every > 0 && saved_step_ != state_.step) save();
  }
  result_.steps = state_.step;
  result_.measured_step_seconds = median_after_warmup(step_seconds_);
  result_.noise_scale = noise_.noise_scale();
  stack_bytes_ = thread_stack_resident_bytes();
}

void RankRunner::prepare() {
  const Header& header = program_.header;
  arena_ = std::make_unique<Arena>(header.arena_bytes,
                                   options_.device_memory_bytes - header.outside_bytes);
  pool_ = std::make_unique<ThreadPool>(num_threads_);
  const auto load = [this](const BatchRequest& request, const Operand& out) {
    shared_.data.fill(request.field, parse_split(request.split), request.batch,
                      request.first_sample, request.micro_batch, out);
  };
  interpreter_ = std::make_unique<Interpreter>(
      program_, *arena_, *pool_, communicator_, load,
      InterpreterOptions{.seed = options_.seed, .poison = options_.poison});
  shared_.parts[static_cast<size_t>(communicator_.rank())] = persistent_parts(*interpreter_);
  loss_ = required_scalar(*interpreter_, kLossBuffer);
  correct_ = required_scalar(*interpreter_, kCorrectBuffer);
  small_norm_ = required_scalar(*interpreter_, kNoiseBuffer);
  if (!loss_.present() || interpreter_->scalars() == nullptr) {
    throw bad_input(fmt::format("a program to be trained needs the buffers '{}' and '{}'",
                                kLossBuffer, kScalarsBuffer));
  }
  evaluates_ = program_.find_phase(kEvaluate) != nullptr;
  if (evaluates_ && shared_.data.num_samples(Split::kValidation) == 0) {
    if (options_.target_loss || options_.patience > 0) {
      throw bad_input(
          "the validation set is empty, so neither a target loss nor convergence can "
          "be seen",
          "give more data");
    }
    evaluates_ = false;
    if (is_first()) say("warning: the validation set is empty; no evaluation");
  }
}

void RankRunner::start_values() {
  interpreter_->run_phase(kInitialise);
  state_.seed = options_.seed;
  state_.plan_hash = options_.plan_hash;
  if (shared_.resume_from) {
    load_checkpoint(*shared_.resume_from, parts());
    state_ = shared_.resume_from->state;
    state_.plan_hash = options_.plan_hash;
    noise_.restore(state_.noise);
    result_.resumed_from_step = state_.step;
    if (state_.best_validation_loss) {
      result_.best_validation_loss = static_cast<float>(*state_.best_validation_loss);
    }
  } else if (!options_.init_file.empty()) {
    load_parameters(parts(), *open_tensor_file(options_.init_file));
  }
  if (is_first() && !options_.out_dir.empty()) {
    metrics_ = std::make_unique<MetricsWriter>(options_.out_dir + "/metrics.csv", state_.step);
  }
}

// All ranks stop before the same step: rank 0 looks, the others read what it saw.
bool RankRunner::interrupted() {
  if (options_.signal == nullptr) return false;
  if (is_first()) shared_.signal_seen = options_.signal->load();
  communicator_.barrier();
  const int seen = shared_.signal_seen;
  communicator_.barrier();
  if (seen == 0) return false;
  result_.stop = StopReason::kInterrupted;
  result_.signal = seen;
  return true;
}

void RankRunner::set_scalars(int64_t valid_targets) {
  const Attributes& facts = program_.header.hyperparameters;
  double* scalars = interpreter_->scalars();
  scalars[kScalarStep] = static_cast<double>(state_.step);
  scalars[kScalarSeed] = static_cast<double>(options_.seed);
  scalars[kScalarLearningRate] = learning_rate(options_.schedule, state_.step);
  scalars[kScalarBiasCorrection1] = bias_correction(facts.get_double("beta1", 0.9), state_.step);
  scalars[kScalarBiasCorrection2] = bias_correction(facts.get_double("beta2", 0.999), state_.step);
  scalars[kScalarGradientScale] = 1 / static_cast<double>(valid_targets);
  scalars[kScalarSkipUpdate] = 0;
}

double RankRunner::read_loss(int64_t valid_targets, std::string_view what) const {
  const double loss = *loss_.as<double>() / static_cast<double>(valid_targets);
  if (std::isfinite(loss)) return loss;
  throw run_failed(
      fmt::format("step {}, rank {}: the {} is {}", state_.step, communicator_.rank(), what, loss),
      "lower --learning-rate, lengthen --warmup-steps, or clip harder (--clip)");
}

void RankRunner::train_step() {
  const int64_t targets = shared_.data.valid_targets(Split::kTrain, state_.step);
  if (targets < 1) throw bad_input(fmt::format("step {}: no targets to learn from", state_.step));
  const auto begin = std::chrono::steady_clock::now();
  set_scalars(targets);
  const bool in_own_phase = program_.find_phase(kStepNoise) != nullptr;
  const bool measures =
      !in_own_phase || (options_.noise_every > 0 && state_.step % options_.noise_every == 0);
  interpreter_->run_phase(measures && in_own_phase ? kStepNoise : kStep);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  step_seconds_.push_back(elapsed.count());

  StepMetrics metrics;
  metrics.step = state_.step;
  metrics.loss = static_cast<float>(read_loss(targets, "loss"));
  metrics.learning_rate = interpreter_->scalars()[kScalarLearningRate];
  metrics.gradient_norm = interpreter_->scalars()[kScalarGradientNorm];
  if (!std::isfinite(metrics.gradient_norm)) {
    throw run_failed(fmt::format("step {}, rank {}: the gradient norm is {}", state_.step,
                                 communicator_.rank(), metrics.gradient_norm),
                     "lower --learning-rate, lengthen --warmup-steps, or clip harder (--clip)");
  }
  metrics.step_seconds = elapsed.count();
  result_.final_loss = metrics.loss;
  if (measures) add_noise(metrics.gradient_norm);
  metrics.noise_scale = noise_.noise_scale();
  ++state_.step;
  state_.samples = checked_mul(state_.step, program_.header.samples.global_batch);
  after_step(metrics);
}

// The buffer holds the sum over the small batches of the squared norms of their gradients, each
// scaled by 1 / (targets of the global batch). Times the squared number of batches these are the
// norms of the small batches' own mean gradients.
void RankRunner::add_noise(double gradient_norm) {
  const int64_t n = program_.header.hyperparameters.get_int("noise_small_batches", 0);
  if (!small_norm_.present() || n < 2) return;
  const auto count = static_cast<double>(n);
  const auto big_batch = static_cast<double>(program_.header.samples.global_batch);
  const double mean_small = *small_norm_.as<double>() / count * (count * count);
  noise_.add(
      noise_moments(mean_small, gradient_norm * gradient_norm, big_batch / count, big_batch));
  state_.noise = noise_.state();
}

void RankRunner::after_step(StepMetrics& metrics) {
  const Header& header = program_.header;
  const auto seq = std::max<int64_t>(1, header.hyperparameters.get_int("seq", 1));
  metrics.tokens = checked_mul(state_.samples, seq);
  metrics.tokens_per_second =
      static_cast<double>(header.samples.global_batch * seq) / metrics.step_seconds;
  if (header.peak_flops_per_second > 0) {
    metrics.mfu = header.model_flops / (metrics.step_seconds * header.peak_flops_per_second);
  }
  const bool is_due = options_.eval_every > 0 && state_.step % options_.eval_every == 0;
  if (evaluates_ && (is_due || state_.step == options_.steps)) {
    metrics.validation_loss = evaluate();
    metrics.validation_accuracy = result_.validation_accuracy;
    judge_validation(*metrics.validation_loss);
  }
  if (metrics_ != nullptr) metrics_->append(metrics);
  if (is_first() && shared_.callbacks.on_step) shared_.callbacks.on_step(metrics);
  if (options_.checkpoint_every > 0 && state_.step % options_.checkpoint_every == 0) save();
}

float RankRunner::evaluate() {
  const int64_t batches = num_eval_batches(program_);
  int64_t targets = 0;
  for (int64_t batch = 0; batch < batches; ++batch) {
    targets = checked_add(targets, shared_.data.valid_targets(Split::kValidation, batch));
  }
  if (targets < 1) {
    throw bad_input("the validation set is empty",
                    "give more data, or do not evaluate (--eval-batches 0)");
  }
  interpreter_->run_phase(kEvaluate);
  if (correct_.present()) {
    result_.validation_accuracy = *correct_.as<double>() / static_cast<double>(targets);
  }
  return static_cast<float>(read_loss(targets, "validation loss"));
}

void RankRunner::judge_validation(float loss) {
  result_.validation_loss = loss;
  const bool is_best = !state_.best_validation_loss || loss < *state_.best_validation_loss;
  if (is_best) state_.best_validation_loss = loss;
  state_.stale_evaluations = is_best ? 0 : state_.stale_evaluations + 1;
  result_.best_validation_loss = static_cast<float>(*state_.best_validation_loss);
  if (options_.target_loss && loss <= *options_.target_loss) {
    stop_ = true;
    result_.stop = StopReason::kTargetLoss;
  } else if (options_.patience > 0 && state_.stale_evaluations >= options_.patience) {
    stop_ = true;
    result_.stop = StopReason::kConverged;
  }
}

const std::vector<PersistentPart>& RankRunner::parts() const {
  return shared_.parts[static_cast<size_t>(communicator_.rank())];
}

// Rank 0 writes what all hold while the others wait.
void RankRunner::save() {
  if (options_.out_dir.empty()) return;
  saved_step_ = state_.step;
  communicator_.barrier();
  if (is_first()) {
    std::vector<PersistentPart> all;
    for (const auto& of_rank : shared_.parts) all.insert(all.end(), of_rank.begin(), of_rank.end());
    result_.checkpoint =
        save_checkpoint(options_.out_dir + "/checkpoints", state_, all, options_.keep_checkpoints);
    say(fmt::format("checkpoint {}", result_.checkpoint));
  }
  communicator_.barrier();
}

void RankRunner::say(const std::string& message) const {
  if (shared_.callbacks.on_message) shared_.callbacks.on_message(message);
}

RankReport RankRunner::report() const {
  RankReport report;
  report.rank = program_.header.rank;
  report.predicted_arena_bytes = program_.header.arena_bytes;
  report.predicted_peak_bytes = program_.peak_bytes();
  report.device_memory_bytes = options_.device_memory_bytes;
  if (arena_ != nullptr) {
    report.measured_arena_bytes = arena_->measured_bytes(program_.header.alignment);
    report.guard_intact = arena_->guard_intact();
  }
  return report;
}

}  // namespace plimsoll
