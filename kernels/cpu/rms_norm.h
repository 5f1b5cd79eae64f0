// Root-mean-square normalisation over the last dimension: y = x * rstd * w.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

// x [R,C], w [C], y [R,C], rstd [R] = 1 / sqrt(mean(x^2) + epsilon).
template <class T>
void rms_norm_forward(const T* x, const T* w, T* y, T* rstd, T epsilon, int64_t rows,
                      int64_t channels, ThreadPool& pool);

// dy, x [R,C], w [C], rstd [R]; dx [R,C] (+)=, dw [C] (+)=.
template <class T>
void rms_norm_backward(const T* dy, const T* x, const T* w, const T* rstd, T* dx,
                       bool accumulate_dx, T* dw, bool accumulate_dw, int64_t rows,
                       int64_t channels, ThreadPool& pool);

}  // namespace plimsoll
