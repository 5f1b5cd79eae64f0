// Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023) in one pass: a step of
// the learning rate along the sign of what momentum and gradient add up to, with decoupled decay.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

struct LionOptions {
  double beta1 = 0.9;   // momentum's share of the direction
  double beta2 = 0.99;  // what momentum keeps of itself
  double weight_decay = 0;
  double learning_rate = 0;
  double clip_factor = 1;  // multiplies the gradient
};

// param, momentum [n] are updated in place from grad [n].
template <class T>
void lion(T* param, const T* grad, T* momentum, const LionOptions& options, int64_t n,
          ThreadPool& pool);

}  // namespace plimsoll
