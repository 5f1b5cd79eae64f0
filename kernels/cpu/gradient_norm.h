// The pieces of the global gradient norm: one sum of squares a tensor, added in canonical order.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

// Sum of x[i]^2 over [n] in double precision, in at most 64 blocks that depend on n alone.
template <class T>
[[nodiscard]] double sum_squares(const T* x, int64_t n, ThreadPool& pool);

// Sum of terms [n], one after the other.
[[nodiscard]] double sum_terms(const double* terms, int64_t n);

// What gradients of that norm are multiplied by so that it is at most `max_norm`; 1 when max_norm
// is 0. A norm that is not a number stays one.
[[nodiscard]] double clip_factor(double norm, double max_norm);

}  // namespace plimsoll
