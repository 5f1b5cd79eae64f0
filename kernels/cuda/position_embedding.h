// A row a position, added to each sample.
#pragma once

#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::cuda {

// x, y [batch, length, channels] (y may be x), table [max_length, channels].
void position_embedding_forward(const float* x, const float* table, float* y, int64_t batch,
                                int64_t length, int64_t channels, const Queue& queue);
void position_embedding_backward(const float* dy, float* dtable, bool accumulate, int64_t batch,
                                 int64_t length, int64_t max_length, int64_t channels,
                                 const Queue& queue);

}  // namespace plimsoll::cuda
