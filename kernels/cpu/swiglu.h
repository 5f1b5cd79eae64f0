// SwiGLU: up * silu(gate), silu(z) = z * sigmoid(z).
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

// gate_up [R,2F] with the gate first, y [R,F].
template <class T>
void swiglu_forward(const T* gate_up, T* y, int64_t rows, int64_t features, ThreadPool& pool);

// dy [R,F], gate_up, dgate_up [R,2F] (dgate_up may be gate_up).
template <class T>
void swiglu_backward(const T* dy, const T* gate_up, T* dgate_up, int64_t rows, int64_t features,
                     ThreadPool& pool);

}  // namespace plimsoll
