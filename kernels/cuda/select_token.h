// One token of each sample.
#pragma once

#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::cuda {

// x [batch, length, channels], y [batch, channels].
void select_token_forward(const float* x, float* y, int64_t index, int64_t batch, int64_t length,
                          int64_t channels, const Queue& queue);
// dx is zero elsewhere.
void select_token_backward(const float* dy, float* dx, int64_t index, int64_t batch, int64_t length,
                           int64_t channels, const Queue& queue);

}  // namespace plimsoll::cuda
