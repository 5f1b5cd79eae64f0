// ReLU, max(x, 0).
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

// x, y [n] (y may be x).
template <class T>
void relu_forward(const T* x, T* y, int64_t n, ThreadPool& pool);

// dy, y, dx [n] (dx may be dy): dy where y > 0.
template <class T>
void relu_backward(const T* dy, const T* y, T* dx, int64_t n, ThreadPool& pool);

}  // namespace plimsoll
