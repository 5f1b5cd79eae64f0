// Mean of each channel plane.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

// x [P,H*W] (P = N*C planes), y [P].
template <class T>
void global_avg_pool_forward(const T* x, T* y, int64_t planes, int64_t pixels, ThreadPool& pool);

// dy [P], dx [P,H*W] = dy / (H*W).
template <class T>
void global_avg_pool_backward(const T* dy, T* dx, int64_t planes, int64_t pixels, ThreadPool& pool);

}  // namespace plimsoll
