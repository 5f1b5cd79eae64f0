// A learned vector for each position, added to each sequence.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

// x [B,T,C], table [M,C], y [B,T,C] (may be x). The first token meets row `first` of the table,
// which has first + T rows at least.
template <class T>
void position_embedding_forward(const T* x, const T* table, T* y, int64_t batch, int64_t length,
                                int64_t channels, ThreadPool& pool, int64_t first = 0);

// dy [B,T,C], dtable [M,C] (+)= sum over the batch; rows outside [first, first + T) get nothing.
template <class T>
void position_embedding_backward(const T* dy, T* dtable, bool accumulate, int64_t batch,
                                 int64_t length, int64_t max_length, int64_t channels,
                                 ThreadPool& pool, int64_t first = 0);

}  // namespace plimsoll
