// Linear layers: y = x w' + bias.
#pragma once

#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::cuda {

// x [rows, k], w [n, k], bias [n] or null, y [rows, n].
void linear_forward(const float* x, const float* w, const float* bias, float* y, int64_t rows,
                    int64_t k, int64_t n, const Queue& queue);
void linear_backward_input(const float* dy, const float* w, float* dx, bool accumulate,
                           int64_t rows, int64_t k, int64_t n, const Queue& queue);
void linear_backward_weight(const float* x, const float* dy, float* dw, bool accumulate,
                            int64_t rows, int64_t k, int64_t n, const Queue& queue);
void linear_backward_bias(const float* dy, float* dbias, bool accumulate, int64_t rows, int64_t n,
                          const Queue& queue);

}  // namespace plimsoll::cuda
