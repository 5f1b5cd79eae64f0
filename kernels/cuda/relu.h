// The larger of zero and a value.
#pragma once

#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::cuda {

// x, y [n] (y may be x); a NaN stays one.
void relu_forward(const float* x, float* y, int64_t n, const Queue& queue);
// dx [n] = dy where y > 0 (dx may be dy).
void relu_backward(const float* dy, const float* y, float* dx, int64_t n, const Queue& queue);

}  // namespace plimsoll::cuda
