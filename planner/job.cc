#include "planner/job.h"

#include "base/error.h"

namespace plimsoll {

std::string_view optimizer_name(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::kAdamW:
      return "adamw";
    case Optimizer::kAdam:
      return "adam";
    case Optimizer::kLion:
      return "lion";
    case Optimizer::kSgd:
      return "sgd";
  }
  return "?";
}

Optimizer parse_optimizer(std::string_view name) {
  for (const Optimizer optimizer :
       {Optimizer::kAdamW, Optimizer::kAdam, Optimizer::kLion, Optimizer::kSgd}) {
    if (optimizer_name(optimizer) == name) return optimizer;
  }
  throw bad_input(fmt::format("unknown optimizer '{}'", name), "use adamw, adam, lion or sgd");
}

int64_t moments_per_parameter(const Job& job) {
  switch (job.optimizer) {
    case Optimizer::kAdamW:
    case Optimizer::kAdam:
      return 2;
    case Optimizer::kLion:
      return 1;
    case Optimizer::kSgd:
      return job.momentum != 0 ? 1 : 0;
  }
  return 0;
}

int64_t state_bytes_per_parameter(const Job& job) {
  int64_t bytes = dtype_bytes(job.precision) + dtype_bytes(job.gradient_type);
  if (job.master_weights) bytes += 4;
  return bytes + moments_per_parameter(job) * dtype_bytes(job.state_type);
}

void set_precision(Job& job, std::string_view precision) {
  const auto dtype = parse_dtype(precision);
  if (!dtype || (*dtype != DType::kF32 && *dtype != DType::kF64 && *dtype != DType::kBF16 &&
                 *dtype != DType::kF16)) {
    throw bad_input(fmt::format("unknown precision '{}'", precision), "use fp32, bf16 or fp16");
  }
  job.precision = *dtype;
  const bool half = dtype_bytes(*dtype) == 2;
  job.gradient_type = half ? DType::kF32 : *dtype;
  job.state_type = half ? DType::kF32 : *dtype;
  job.master_weights = half;
}

void check_job(const ModelSpec& model, const Job& job) {
  if (job.global_batch <= 0) {
    throw bad_input(fmt::format("--global-batch {} is not positive", job.global_batch));
  }
  const bool text =
      model.objective == Objective::kNextToken || model.objective == Objective::kMaskedToken;
  if (text && job.seq <= 0) throw bad_input(fmt::format("--seq {} is not positive", job.seq));
  // The step's tokens are counted in 63 bits everywhere.
  const int64_t tokens = checked_mul(job.global_batch, text ? job.seq : 1);
  if (tokens > (int64_t{1} << 50)) {
    throw bad_input(fmt::format("{} tokens a step are beyond any machine", tokens),
                    "use a smaller --global-batch or --seq");
  }
}

}  // namespace plimsoll
