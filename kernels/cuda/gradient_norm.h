// The gradient norm in double precision: a term a tensor, then their sum and the clip factor.
#pragma once

#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::cuda {

// terms[0] = the sum of squares of x [n], by one block in a fixed order.
void sum_squares(const float* x, double* term, int64_t n, const Queue& queue);
// total [1] (+)= the sum of terms [n] in their order.
void sum_terms(const double* terms, double* total, bool accumulate, int64_t n, const Queue& queue);
// norm [1] = sqrt(sum of terms), factor [1] = min(1, max_norm / norm), 1 when max_norm is 0.
void clip(const double* terms, double* norm, double* factor, double max_norm, int64_t n,
          const Queue& queue);

}  // namespace plimsoll::cuda
