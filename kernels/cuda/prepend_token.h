// One more token before each sample, the same for all.
#pragma once

#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::cuda {

// x [batch, length, channels], token [channels], y [batch, length + 1, channels].
void prepend_token_forward(const float* x, const float* token, float* y, int64_t batch,
                           int64_t length, int64_t channels, const Queue& queue);
void prepend_token_backward(const float* dy, float* dx, float* dtoken, bool accumulate_dtoken,
                            int64_t batch, int64_t length, int64_t channels, const Queue& queue);

}  // namespace plimsoll::cuda
