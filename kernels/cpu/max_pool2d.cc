#include "kernels/cpu/max_pool2d.h"

#include "kernels/cpu/elementwise.h"

#include <limits>

namespace plimsoll {
namespace {

// The part of a window that lies inside the image.
struct Window {
  int64_t top, bottom, left, right;  // half open
};

Window window(const MaxPoolShape& s, int64_t oh, int64_t ow) {
  const int64_t top = oh * s.stride - s.padding;
  const int64_t left = ow * s.stride - s.padding;
  return {std::max<int64_t>(0, top), std::min(s.in_height, top + s.kernel),
          std::max<int64_t>(0, left), std::min(s.in_width, left + s.kernel)};
}

template <class T>
T largest_in(const T* plane, const Window& w, int64_t width) {
  T largest = -std::numeric_limits<T>::infinity();
  for (int64_t i = w.top; i < w.bottom; ++i) {
    for (int64_t j = w.left; j < w.right; ++j) largest = std::max(largest, plane[i * width + j]);
  }
  return largest;
}

// Index in the plane of the first element equal to `value`, -1 when there is none (NaN).
template <class T>
int64_t first_equal(const T* plane, const Window& w, int64_t width, T value) {
  for (int64_t i = w.top; i < w.bottom; ++i) {
    for (int64_t j = w.left; j < w.right; ++j) {
      if (plane[i * width + j] == value) return i * width + j;
    }
  }
  return -1;
}

}  // namespace

template <class T>
void max_pool2d_forward(const T* x, T* y, const MaxPoolShape& shape, ThreadPool& pool) {
  for_each_row(shape.planes, shape.in_height * shape.in_width, pool, [&](int64_t p) {
    const T* plane = x + p * shape.in_height * shape.in_width;
    T* out = y + p * shape.out_height() * shape.out_width();
    for (int64_t oh = 0; oh < shape.out_height(); ++oh) {
      for (int64_t ow = 0; ow < shape.out_width(); ++ow) {
        *out++ = largest_in(plane, window(shape, oh, ow), shape.in_width);
      }
    }
  });
}

template <class T>
void max_pool2d_backward(const T* dy, const T* x, const T* y, T* dx, const MaxPoolShape& shape,
                         ThreadPool& pool) {
  const int64_t in_size = shape.in_height * shape.in_width;
  const int64_t out_size = shape.out_height() * shape.out_width();
  for_each_row(shape.planes, in_size, pool, [&](int64_t p) {
    const T* plane = x + p * in_size;
    T* out = dx + p * in_size;
    std::fill_n(out, in_size, T{0});
    for (int64_t o = 0; o < out_size; ++o) {
      const Window w = window(shape, o / shape.out_width(), o % shape.out_width());
      const int64_t i = first_equal(plane, w, shape.in_width, y[p * out_size + o]);
      if (i >= 0) out[i] += dy[p * out_size + o];
    }
  });
}

#define PLIMSOLL_INSTANTIATE(T)                                                               \
  template void max_pool2d_forward<T>(const T*, T*, const MaxPoolShape&, ThreadPool&);        \
  template void max_pool2d_backward<T>(const T*, const T*, const T*, T*, const MaxPoolShape&, \
                                       ThreadPool&);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
