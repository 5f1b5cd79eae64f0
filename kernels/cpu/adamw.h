// AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization") in one pass over memory.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

struct AdamwOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  double learning_rate = 0;
  double bias_correction1 = 1, bias_correction2 = 1;  // 1 - beta^(step + 1)
  double clip_factor = 1;                             // multiplies the gradient
};

// param, m, v [n] are updated in place from grad [n].
template <class T>
void adamw(T* param, const T* grad, T* m, T* v, const AdamwOptions& options, int64_t n,
           ThreadPool& pool);

}  // namespace plimsoll
