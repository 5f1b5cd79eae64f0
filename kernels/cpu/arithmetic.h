// Whole-buffer helpers: add, copy, fill.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

// y [n] = a [n] + b [n]; y may be a or b. Also runs "residual".
template <class T>
void add(const T* a, const T* b, T* y, int64_t n, ThreadPool& pool);

// Copies `bytes` bytes; the two may not overlap unless they are the same.
void copy_bytes(const void* from, void* to, int64_t bytes, ThreadPool& pool);

// y [n] = value.
template <class T>
void fill(T* y, T value, int64_t n, ThreadPool& pool);

}  // namespace plimsoll
