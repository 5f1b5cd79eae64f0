// One position of each sequence.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

// x [B,T,C], y [B,C] = x at position `index`.
template <class T>
void select_token_forward(const T* x, T* y, int64_t index, int64_t batch, int64_t length,
                          int64_t channels, ThreadPool& pool);

// dy [B,C], dx [B,T,C], zero at all other positions.
template <class T>
void select_token_backward(const T* dy, T* dx, int64_t index, int64_t batch, int64_t length,
                           int64_t channels, ThreadPool& pool);

}  // namespace plimsoll
