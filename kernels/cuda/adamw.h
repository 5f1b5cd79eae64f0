// AdamW, as kernels/cpu/adamw.h defines it.
#pragma once

#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::cuda {

// What changes from step to step lies on the device; a non-zero `skip` leaves everything alone.
struct AdamwOptions {
  float beta1 = 0.9F, beta2 = 0.999F;
  float rest1 = 0.1F, rest2 = 0.001F;  // 1 - beta, rounded once
  float epsilon = 1e-8F, weight_decay = 0;
  const double *learning_rate = nullptr, *bias_correction1 = nullptr, *bias_correction2 = nullptr,
               *clip_factor = nullptr, *skip = nullptr;
};

// param, grad, m, v [n].
void adamw(float* param, const float* grad, float* m, float* v, const AdamwOptions& options,
           int64_t n, const Queue& queue);

}  // namespace plimsoll::cuda
