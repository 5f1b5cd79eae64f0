// SwiGLU: up * silu(gate).
#pragma once

#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::cuda {

// gate_up [rows, 2 * features] (gate first), y [rows, features].
void swiglu_forward(const float* gate_up, float* y, int64_t rows, int64_t features,
                    const Queue& queue);
// dgate_up may be gate_up.
void swiglu_backward(const float* dy, const float* gate_up, float* dgate_up, int64_t rows,
                     int64_t features, const Queue& queue);

}  // namespace plimsoll::cuda
