// Stochastic gradient descent with momentum, as kernels/cpu/sgd.h defines it.
#pragma once

#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::cuda {

struct SgdOptions {
  float momentum = 0, weight_decay = 0;
  const double *learning_rate = nullptr, *clip_factor = nullptr, *skip = nullptr;  // on the device
};

// param, grad, momentum [n]; momentum may be null.
void sgd(float* param, const float* grad, float* momentum, const SgdOptions& options, int64_t n,
         const Queue& queue);

}  // namespace plimsoll::cuda
