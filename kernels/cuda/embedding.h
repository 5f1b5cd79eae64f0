// Rows of a table by token, and the sum of gradients a row.
#pragma once

#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::cuda {

// tokens [rows], table [vocabulary, channels], y [rows, channels].
void embedding_forward(const int32_t* tokens, const float* table, float* y, int64_t rows,
                       int64_t channels, const Queue& queue);
// dtable (+)=, summed in the order of rows; workspace [vocabulary + rows].
void embedding_backward(const int32_t* tokens, const float* dy, float* dtable, bool accumulate,
                        int32_t* workspace, int64_t rows, int64_t vocabulary, int64_t channels,
                        const Queue& queue);

}  // namespace plimsoll::cuda
