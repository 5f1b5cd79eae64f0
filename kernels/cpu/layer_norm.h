// Layer normalisation over the last dimension: y = (x - mean) * rstd * w + b.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

// x [R,C], w [C], b [C], y [R,C], mean [R], rstd [R] = 1 / sqrt(variance + epsilon).
template <class T>
void layer_norm_forward(const T* x, const T* w, const T* b, T* y, T* mean, T* rstd, T epsilon,
                        int64_t rows, int64_t channels, ThreadPool& pool);

// dy, x [R,C], w [C], mean, rstd [R]; dx [R,C] (+)=.
template <class T>
void layer_norm_backward_input(const T* dy, const T* x, const T* w, const T* mean, const T* rstd,
                               T* dx, bool accumulate, int64_t rows, int64_t channels,
                               ThreadPool& pool);

// dw [C] (+)= sum over rows of dy * xhat, db [C] (+)= sum over rows of dy.
template <class T>
void layer_norm_backward_weight(const T* dy, const T* x, const T* mean, const T* rstd, T* dw,
                                bool accumulate_dw, T* db, bool accumulate_db, int64_t rows,
                                int64_t channels, ThreadPool& pool);

}  // namespace plimsoll
