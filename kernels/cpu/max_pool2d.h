// Largest value of each window.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

struct MaxPoolShape {
  int64_t planes = 1;  // N*C
  int64_t in_height = 1, in_width = 1;
  int64_t kernel = 1, stride = 1, padding = 0;  // padding < kernel

  [[nodiscard]] int64_t out_height() const {
    return (in_height + 2 * padding - kernel) / stride + 1;
  }
  [[nodiscard]] int64_t out_width() const { return (in_width + 2 * padding - kernel) / stride + 1; }
};

// x [N,C,H,W], y [N,C,Ho,Wo].
template <class T>
void max_pool2d_forward(const T* x, T* y, const MaxPoolShape& shape, ThreadPool& pool);

// dy, y [N,C,Ho,Wo], x, dx [N,C,H,W]: a window's gradient goes to its first largest value, in
// row-major order.
template <class T>
void max_pool2d_backward(const T* dy, const T* x, const T* y, T* dx, const MaxPoolShape& shape,
                         ThreadPool& pool);

}  // namespace plimsoll
