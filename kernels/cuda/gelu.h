// GELU, exact or by tanh, as kernels/cpu/gelu.h defines it.
#pragma once

#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::cuda {

enum class GeluForm : uint8_t { kTanh, kErf };

// x, y [n] (y may be x).
void gelu_forward(const float* x, float* y, GeluForm form, int64_t n, const Queue& queue);
// dx [n] = dy * slope at x (dx may be dy).
void gelu_backward(const float* dy, const float* x, float* dx, GeluForm form, int64_t n,
                   const Queue& queue);

}  // namespace plimsoll::cuda
