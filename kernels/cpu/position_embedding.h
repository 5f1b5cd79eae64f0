// A learned vector for each position, added to each sequence.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

// x [B,T,C], table [M,C] with M >= T, y [B,T,C] (may be x).
template <class T>
void position_embedding_forward(const T* x, const T* table, T* y, int64_t batch, int64_t length,
                                int64_t channels, ThreadPool& pool);

// dy [B,T,C], dtable [M,C] (+)= sum over the batch; rows from T on get nothing.
template <class T>
void position_embedding_backward(const T* dy, T* dtable, bool accumulate, int64_t batch,
                                 int64_t length, int64_t max_length, int64_t channels,
                                 ThreadPool& pool);

}  // namespace plimsoll
