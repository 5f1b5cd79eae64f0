// Channel planes turned into a sequence of channel vectors, and back.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

// y [B,N,M] = x [B,M,N] with the last two dimensions exchanged. image_to_tokens is this with M = C
// and N = H*W, its gradient the same with the two exchanged.
template <class T>
void exchange_last_two(const T* x, T* y, int64_t batch, int64_t m, int64_t n, ThreadPool& pool);

}  // namespace plimsoll
