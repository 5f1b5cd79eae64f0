// Sum of squared differences.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

// prediction, target [R,D]; row_loss [R] = sum over the row of (p - t)^2.
template <class T>
void mse_rows(const T* prediction, const T* target, T* row_loss, int64_t rows, int64_t columns,
              ThreadPool& pool);

// dprediction [n] (may be prediction) = 2 (p - t) * scale.
template <class T>
void mse_backward(const T* prediction, const T* target, T* dprediction, double scale, int64_t n,
                  ThreadPool& pool);

}  // namespace plimsoll
