// Layer normalisation over the last dimension.
#pragma once

#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::cuda {

// x, y [rows, channels], w, b [channels], mean, rstd [rows].
void layer_norm_forward(const float* x, const float* w, const float* b, float* y, float* mean,
                        float* rstd, float epsilon, int64_t rows, int64_t channels,
                        const Queue& queue);
void layer_norm_backward_input(const float* dy, const float* x, const float* w, const float* mean,
                               const float* rstd, float* dx, bool accumulate, int64_t rows,
                               int64_t channels, const Queue& queue);
// dw, db [channels], summed over rows in an order that the extents fix.
void layer_norm_backward_weight(const float* dy, const float* x, const float* mean,
                                const float* rstd, float* dw, bool accumulate_dw, float* db,
                                bool accumulate_db, int64_t rows, int64_t channels,
                                const Queue& queue);

}  // namespace plimsoll::cuda
