#include "kernels/cuda/elements.h"
#include "kernels/cuda/gelu.h"

namespace plimsoll::cuda {

namespace {

constexpr float kTwiceScale = 1.5957691216F;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715F;
constexpr float kInverseSqrt2 = 0.70710678119F;
constexpr float kInverseSqrt2Pi = 0.39894228040F;

__device__ __forceinline__ float sigmoid_of_cube(float x) {
  return 1.0F / (1.0F + expf(-kTwiceScale * (x + kCubic * x * x * x)));
}

struct TanhForward {
  const float* x;
  float* y;
  __device__ void operator()(int64_t i) const { y[i] = x[i] * sigmoid_of_cube(x[i]); }
};

struct TanhBackward {
  const float* dy;
  const float* x;
  float* dx;
  __device__ void operator()(int64_t i) const {
    const float v = x[i];
    const float s = sigmoid_of_cube(v);
    dx[i] = dy[i] * (s + v * s * (1 - s) * kTwiceScale * (1 + 3 * kCubic * v * v));
  }
};

struct ErfForward {
  const float* x;
  float* y;
  __device__ void operator()(int64_t i) const {
    y[i] = x[i] * (0.5F * erfcf(-x[i] * kInverseSqrt2));
  }
};

struct ErfBackward {
  const float* dy;
  const float* x;
  float* dx;
  __device__ void operator()(int64_t i) const {
    const float v = x[i];
    dx[i] = dy[i] * (0.5F * erfcf(-v * kInverseSqrt2) + v * kInverseSqrt2Pi * expf(-0.5F * v * v));
  }
};

}  // namespace

void gelu_forward(const float* x, float* y, GeluForm form, int64_t n, const Queue& queue) {
  if (form == GeluForm::kTanh) return for_each_element(queue, "gelu", n, TanhForward{x, y});
  for_each_element(queue, "gelu", n, ErfForward{x, y});
}

void gelu_backward(const float* dy, const float* x, float* dx, GeluForm form, int64_t n,
                   const Queue& queue) {
  if (form == GeluForm::kTanh) {
    return for_each_element(queue, "gelu.backward", n, TanhBackward{dy, x, dx});
  }
  for_each_element(queue, "gelu.backward", n, ErfBackward{dy, x, dx});
}

}  // namespace plimsoll::cuda
