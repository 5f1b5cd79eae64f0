#include "kernels/cpu/conv2d.h"

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/matmul.h"

namespace plimsoll {
namespace {

// The output columns [first, last) whose tap `k` falls inside the image: 0 <= o * stride + k -
// padding < extent.
struct TapRange {
  int64_t first, last;
};

TapRange inside(const Conv2dShape& s, int64_t k, int64_t in_extent, int64_t out_extent) {
  const int64_t lowest = s.padding - k;  // o * stride must be at least this
  const int64_t first = lowest <= 0 ? 0 : (lowest + s.stride - 1) / s.stride;
  const int64_t room = in_extent - 1 - k + s.padding;
  const int64_t last = room < 0 ? 0 : room / s.stride + 1;
  return {std::min(first, out_extent), std::clamp(last, std::min(first, out_extent), out_extent)};
}

// Fills patches [Ci*Kh*Kw, Ho*Wo] from one image [Ci,H,W]; outside the image is 0.
template <class T>
void image_to_patches(const T* image, T* patches, const Conv2dShape& s, ThreadPool& pool) {
  const int64_t taps = s.kernel_height * s.kernel_width;
  for_each_row(s.patch_size(), s.out_pixels(), pool, [&](int64_t row) {
    const T* plane = image + row / taps * s.in_height * s.in_width;
    T* out = patches + row * s.out_pixels();
    const int64_t kh = row % taps / s.kernel_width;
    const int64_t kw = row % s.kernel_width;
    const TapRange columns = inside(s, kw, s.in_width, s.out_width());
    for (int64_t oh = 0; oh < s.out_height(); ++oh, out += s.out_width()) {
      const int64_t ih = oh * s.stride + kh - s.padding;
      if (ih < 0 || ih >= s.in_height) {
        std::fill_n(out, s.out_width(), T{0});
        continue;
      }
      const T* from = plane + ih * s.in_width + kw - s.padding;
      std::fill(out, out + columns.first, T{0});
      for (int64_t ow = columns.first; ow < columns.last; ++ow) out[ow] = from[ow * s.stride];
      std::fill(out + columns.last, out + s.out_width(), T{0});
    }
  });
}

// Adds the patches' gradients to the pixels of one image that they were taken from; a task owns a
// channel and goes through the taps in order.
template <class T>
void patches_to_image(const T* patches, T* image, bool accumulate, const Conv2dShape& s,
                      ThreadPool& pool) {
  const int64_t taps = s.kernel_height * s.kernel_width;
  for_each_row(s.in_channels, taps * s.out_pixels(), pool, [&](int64_t channel) {
    T* plane = image + channel * s.in_height * s.in_width;
    if (!accumulate) std::fill_n(plane, s.in_height * s.in_width, T{0});
    for (int64_t tap = 0; tap < taps; ++tap) {
      const T* from = patches + (channel * taps + tap) * s.out_pixels();
      const int64_t kh = tap / s.kernel_width;
      const int64_t kw = tap % s.kernel_width;
      const TapRange columns = inside(s, kw, s.in_width, s.out_width());
      for (int64_t oh = 0; oh < s.out_height(); ++oh, from += s.out_width()) {
        const int64_t ih = oh * s.stride + kh - s.padding;
        if (ih < 0 || ih >= s.in_height) continue;
        T* to = plane + ih * s.in_width + kw - s.padding;
        for (int64_t ow = columns.first; ow < columns.last; ++ow) to[ow * s.stride] += from[ow];
      }
    }
  });
}

}  // namespace

template <class T>
void conv2d_forward(const T* x, const T* w, const T* bias, T* y, T* workspace,
                    const Conv2dShape& shape, ThreadPool& pool) {
  const int64_t pixels = shape.out_pixels();
  for (int64_t n = 0; n < shape.batch; ++n) {
    T* out = y + n * shape.out_channels * pixels;
    image_to_patches(x + n * shape.in_size(), workspace, shape, pool);
    if (bias != nullptr) {
      for_each_row(shape.out_channels, pixels, pool,
                   [=](int64_t c) { std::fill_n(out + c * pixels, pixels, bias[c]); });
    }
    matmul<T>(shape.out_channels, pixels, shape.patch_size(), {w, shape.patch_size()},
              {workspace, pixels}, bias != nullptr, out, pixels, pool);
  }
}

template <class T>
void conv2d_backward_input(const T* dy, const T* w, T* dx, bool accumulate, T* workspace,
                           const Conv2dShape& shape, ThreadPool& pool) {
  const int64_t pixels = shape.out_pixels();
  for (int64_t n = 0; n < shape.batch; ++n) {
    matmul<T>(shape.patch_size(), pixels, shape.out_channels, {w, shape.patch_size(), true},
              {dy + n * shape.out_channels * pixels, pixels}, false, workspace, pixels, pool);
    patches_to_image(workspace, dx + n * shape.in_size(), accumulate, shape, pool);
  }
}

template <class T>
void conv2d_backward_weight(const T* x, const T* dy, T* dw, bool accumulate, T* workspace,
                            const Conv2dShape& shape, ThreadPool& pool) {
  const int64_t pixels = shape.out_pixels();
  for (int64_t n = 0; n < shape.batch; ++n) {
    image_to_patches(x + n * shape.in_size(), workspace, shape, pool);
    matmul<T>(shape.out_channels, shape.patch_size(), pixels,
              {dy + n * shape.out_channels * pixels, pixels}, {workspace, pixels, true},
              accumulate || n > 0, dw, shape.patch_size(), pool);
  }
}

template <class T>
void conv2d_backward_bias(const T* dy, T* dbias, bool accumulate, const Conv2dShape& shape,
                          ThreadPool& pool) {
  const int64_t pixels = shape.out_pixels();
  for_each_row(shape.out_channels, shape.batch * pixels, pool, [&](int64_t c) {
    T total = 0;
    for (int64_t n = 0; n < shape.batch; ++n) {
      total += sum(dy + (n * shape.out_channels + c) * pixels, pixels);
    }
    dbias[c] = accumulate ? dbias[c] + total : total;
  });
}

#define PLIMSOLL_INSTANTIATE(T)                                                                 \
  template void conv2d_forward<T>(const T*, const T*, const T*, T*, T*, const Conv2dShape&,     \
                                  ThreadPool&);                                                 \
  template void conv2d_backward_input<T>(const T*, const T*, T*, bool, T*, const Conv2dShape&,  \
                                         ThreadPool&);                                          \
  template void conv2d_backward_weight<T>(const T*, const T*, T*, bool, T*, const Conv2dShape&, \
                                          ThreadPool&);                                         \
  template void conv2d_backward_bias<T>(const T*, T*, bool, const Conv2dShape&, ThreadPool&);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
