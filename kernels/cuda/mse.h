// Squared error.
#pragma once

#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::cuda {

// prediction, target [rows, columns]; row_loss [rows].
void mse_rows(const float* prediction, const float* target, float* row_loss, int64_t rows,
              int64_t columns, const Queue& queue);
// dprediction [n] (may be prediction) = 2 (prediction - target) * scale; scale is on the device.
void mse_backward(const float* prediction, const float* target, float* dprediction,
                  const double* scale, int64_t n, const Queue& queue);

}  // namespace plimsoll::cuda
