// y = x w^T + b and its gradients; weights are stored (out, in).
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

// x [R,K], w [N,K], bias [N] or null, y [R,N].
template <class T>
void linear_forward(const T* x, const T* w, const T* bias, T* y, int64_t rows, int64_t k, int64_t n,
                    ThreadPool& pool);

// dx [R,K] (+)= dy [R,N] w [N,K].
template <class T>
void linear_backward_input(const T* dy, const T* w, T* dx, bool accumulate, int64_t rows, int64_t k,
                           int64_t n, ThreadPool& pool);

// dw [N,K] (+)= dy [R,N]^T x [R,K].
template <class T>
void linear_backward_weight(const T* x, const T* dy, T* dw, bool accumulate, int64_t rows,
                            int64_t k, int64_t n, ThreadPool& pool);

// dbias [N] (+)= sum of dy [R,N] over rows.
template <class T>
void linear_backward_bias(const T* dy, T* dbias, bool accumulate, int64_t rows, int64_t n,
                          ThreadPool& pool);

}  // namespace plimsoll
