// Stochastic gradient descent with momentum and coupled weight decay, as PyTorch defines it.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

struct SgdOptions {
  double momentum = 0, weight_decay = 0;
  double learning_rate = 0;
  double clip_factor = 1;  // multiplies the gradient
};

// param, momentum [n] (or null) are updated in place from grad [n]: g = grad * clip + decay *
// param, momentum = mu * momentum + g, param -= rate * momentum (rate * g without momentum).
template <class T>
void sgd(T* param, const T* grad, T* momentum, const SgdOptions& options, int64_t n,
         ThreadPool& pool);

}  // namespace plimsoll
