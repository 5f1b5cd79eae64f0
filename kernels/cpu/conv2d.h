// Two-dimensional convolution as matrix products over the patches of one image at a time (im2col).
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

struct Conv2dShape {
  int64_t batch = 1;                                              // N
  int64_t in_channels = 1, in_height = 1, in_width = 1;           // Ci, H, W
  int64_t out_channels = 1, kernel_height = 1, kernel_width = 1;  // Co, Kh, Kw
  int64_t stride = 1, padding = 0;

  [[nodiscard]] int64_t out_height() const {
    return (in_height + 2 * padding - kernel_height) / stride + 1;
  }
  [[nodiscard]] int64_t out_width() const {
    return (in_width + 2 * padding - kernel_width) / stride + 1;
  }
  [[nodiscard]] int64_t in_size() const { return in_channels * in_height * in_width; }
  [[nodiscard]] int64_t out_pixels() const { return out_height() * out_width(); }
  // Rows of the patch matrix [Ci*Kh*Kw, Ho*Wo], which is each function's workspace.
  [[nodiscard]] int64_t patch_size() const { return in_channels * kernel_height * kernel_width; }
};

// x [N,Ci,H,W], w [Co,Ci,Kh,Kw], bias [Co] or null, y [N,Co,Ho,Wo].
template <class T>
void conv2d_forward(const T* x, const T* w, const T* bias, T* y, T* workspace,
                    const Conv2dShape& shape, ThreadPool& pool);

// dy [N,Co,Ho,Wo], w; dx [N,Ci,H,W] (+)=.
template <class T>
void conv2d_backward_input(const T* dy, const T* w, T* dx, bool accumulate, T* workspace,
                           const Conv2dShape& shape, ThreadPool& pool);

// x, dy; dw [Co,Ci,Kh,Kw] (+)=, summed over images in order.
template <class T>
void conv2d_backward_weight(const T* x, const T* dy, T* dw, bool accumulate, T* workspace,
                            const Conv2dShape& shape, ThreadPool& pool);

// dbias [Co] (+)= sum of dy over images and pixels.
template <class T>
void conv2d_backward_bias(const T* dy, T* dbias, bool accumulate, const Conv2dShape& shape,
                          ThreadPool& pool);

}  // namespace plimsoll
