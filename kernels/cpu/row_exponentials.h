// The sum of a row's exponentials, with scratch from the stack.
#pragma once

#include "kernels/cpu/vector_math.h"

#include <algorithm>
#include <cstdint>

namespace plimsoll {

// Sum of exp(x - largest) over a row that is not to be changed.
template <class T>
[[nodiscard]] T sum_of_exponentials(const T* x, T largest, int64_t n) {
  constexpr int64_t kBlock = 256;
  T total = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    T block[kBlock];
    const int64_t width = std::min(kBlock, n - begin);
    for (int64_t i = 0; i < width; ++i) block[i] = exp_value(x[begin + i] - largest);
    total += sum(block, width);
  }
  return total;
}

}  // namespace plimsoll
