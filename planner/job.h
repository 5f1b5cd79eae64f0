// What is to be trained and how, apart from how it is split: the job options of the command line.
#pragma once

#include "base/dtype.h"
#include "models/model.h"

#include <cstdint>
#include <string>

namespace plimsoll {

enum class Optimizer : uint8_t { kAdamW, kAdam, kLion, kSgd };
[[nodiscard]] std::string_view optimizer_name(Optimizer optimizer);
// Throws Error (exit 2) naming the known ones.
[[nodiscard]] Optimizer parse_optimizer(std::string_view name);

struct Job {
  int64_t global_batch = 1;  // sequences or samples a step, over all ranks
  int64_t seq = 0;           // tokens a sequence; 0 for models without sequences
  DType precision = DType::kF32;

  Optimizer optimizer = Optimizer::kAdamW;
  DType gradient_type = DType::kF32;
  bool master_weights = false;  // an f32 copy beside 16-bit weights; counts as optimizer
  DType state_type = DType::kF32;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, momentum = 0.9;
  double weight_decay = 0.01;
  bool decay_all = false;  // else matrices alone
  double clip = 1.0;       // largest gradient norm; 0: none
  double dropout = 0;

  int64_t eval_batches = 0;    // global batches of one evaluation; 0: no evaluation phase
  bool measure_noise = false;  // on one rank: a phase that measures the gradient noise

  // The profile (costmodel/profile.h) that says what is saved, kept and made again.
  std::string framework = "plimsoll";
  friend bool operator==(const Job&, const Job&) = default;
};

// Moments that the optimizer keeps of a parameter, each of its shape.
[[nodiscard]] int64_t moments_per_parameter(const Job& job);

// Bytes of model states a parameter: weights, gradient, master copy and optimizer moments.
[[nodiscard]] int64_t state_bytes_per_parameter(const Job& job);

// Sets gradient and state types and master weights to the usual ones of a precision
// (fp32: none; bf16 and fp16: f32 gradients, master weights and moments, 18 bytes a parameter).
void set_precision(Job& job, std::string_view precision);

// What the model cannot do with this job is an Error (exit 2): sizes that are not positive, a
// sequence beyond the positions of the model.
void check_job(const ModelSpec& model, const Job& job);

}  // namespace plimsoll
