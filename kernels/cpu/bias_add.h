// A bias by itself: of a product whose sum over ranks is whole only behind the reduction.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

// y [R,N] = x [R,N] + bias [N]; y may be x.
template <class T>
void add_bias(const T* x, const T* bias, T* y, int64_t rows, int64_t n, ThreadPool& pool);

}  // namespace plimsoll
