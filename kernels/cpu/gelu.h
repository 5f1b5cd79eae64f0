// GELU, x * P(X <= x) for a standard normal X, or its approximation by tanh.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

enum class GeluForm : uint8_t { kErf, kTanh };

// x, y [n] (y may be x).
template <class T>
void gelu_forward(const T* x, T* y, GeluForm form, int64_t n, ThreadPool& pool);

// dy, x, dx [n] (dx may be dy).
template <class T>
void gelu_backward(const T* dy, const T* x, T* dx, GeluForm form, int64_t n, ThreadPool& pool);

}  // namespace plimsoll
