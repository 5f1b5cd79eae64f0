#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/elements.h"

namespace plimsoll::cuda {

namespace {

template <class T>
struct Add {
  const T* a;
  const T* b;
  T* y;
  __device__ void operator()(int64_t i) const { y[i] = a[i] + b[i]; }
};

template <class T>
struct Fill {
  T* y;
  T value;
  __device__ void operator()(int64_t i) const { y[i] = value; }
};

struct Copy {
  const uint32_t* from;
  uint32_t* to;
  __device__ void operator()(int64_t i) const { to[i] = from[i]; }
};

}  // namespace

void add(const float* a, const float* b, float* y, int64_t n, const Queue& queue) {
  for_each_element(queue, "add", n, Add<float>{a, b, y});
}

void add(const double* a, const double* b, double* y, int64_t n, const Queue& queue) {
  for_each_element(queue, "add", n, Add<double>{a, b, y});
}

void copy_words(const void* from, void* to, int64_t words, const Queue& queue) {
  if (from == to) return;
  for_each_element(queue, "copy", words,
                   Copy{static_cast<const uint32_t*>(from), static_cast<uint32_t*>(to)});
}

void fill(float* y, float value, int64_t n, const Queue& queue) {
  for_each_element(queue, "fill", n, Fill<float>{y, value});
}

void fill(double* y, double value, int64_t n, const Queue& queue) {
  for_each_element(queue, "fill", n, Fill<double>{y, value});
}

void fill(int32_t* y, int32_t value, int64_t n, const Queue& queue) {
  for_each_element(queue, "fill", n, Fill<int32_t>{y, value});
}

}  // namespace plimsoll::cuda
