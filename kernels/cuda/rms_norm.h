// Root-mean-square normalisation over the last dimension.
#pragma once

#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::cuda {

// x, y [rows, channels], w [channels], rstd [rows].
void rms_norm_forward(const float* x, const float* w, float* y, float* rstd, float epsilon,
                      int64_t rows, int64_t channels, const Queue& queue);
void rms_norm_backward(const float* dy, const float* x, const float* w, const float* rstd,
                       float* dx, bool accumulate_dx, float* dw, bool accumulate_dw, int64_t rows,
                       int64_t channels, const Queue& queue);

}  // namespace plimsoll::cuda
