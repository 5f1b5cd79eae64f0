// A learned token before each sequence.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

// x [B,P,C], token [C], y [B,P+1,C].
template <class T>
void prepend_token_forward(const T* x, const T* token, T* y, int64_t batch, int64_t length,
                           int64_t channels, ThreadPool& pool);

// dy [B,P+1,C], dx [B,P,C], dtoken [C] (+)= sum over the batch.
template <class T>
void prepend_token_backward(const T* dy, T* dx, T* dtoken, bool accumulate_dtoken, int64_t batch,
                            int64_t length, int64_t channels, ThreadPool& pool);

}  // namespace plimsoll
