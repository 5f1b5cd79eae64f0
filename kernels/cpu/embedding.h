// Rows of a table, by token.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

// tokens [R] in [0, V), table [V,C], y [R,C]. Of a larger vocabulary the table may be the rows
// [first, first + V): then `shared`, and a token of other rows gives zeros.
template <class T>
void embedding_forward(const int32_t* tokens, const T* table, T* y, int64_t rows,
                       int64_t vocabulary, int64_t channels, ThreadPool& pool, bool shared = false,
                       int64_t first = 0);

// tokens [R], dy [R,C], dtable [V,C], workspace [V+R]. Each table row's gradient is summed over its
// tokens in index order and then added (or stored) once.
template <class T>
void embedding_backward(const int32_t* tokens, const T* dy, T* dtable, bool accumulate,
                        int32_t* workspace, int64_t rows, int64_t vocabulary, int64_t channels,
                        ThreadPool& pool, bool shared = false, int64_t first = 0);

}  // namespace plimsoll
