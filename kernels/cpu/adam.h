// Adam (Kingma and Ba, 2015) in one pass over memory; decay is part of the gradient.
#pragma once

#include "kernels/cpu/adamw.h"

namespace plimsoll {

// param, m, v [n] are updated in place from grad [n].
template <class T>
void adam(T* param, const T* grad, T* m, T* v, const AdamwOptions& options, int64_t n,
          ThreadPool& pool);

}  // namespace plimsoll
