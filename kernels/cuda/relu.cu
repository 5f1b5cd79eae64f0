#include "kernels/cuda/elements.h"
#include "kernels/cuda/relu.h"

namespace plimsoll::cuda {

namespace {

struct Forward {
  const float* x;
  float* y;
  __device__ void operator()(int64_t i) const { y[i] = x[i] < 0 ? 0.0F : x[i]; }
};

struct Backward {
  const float* dy;
  const float* y;
  float* dx;
  __device__ void operator()(int64_t i) const { dx[i] = y[i] > 0 ? dy[i] : 0.0F; }
};

}  // namespace

void relu_forward(const float* x, float* y, int64_t n, const Queue& queue) {
  for_each_element(queue, "relu", n, Forward{x, y});
}

void relu_backward(const float* dy, const float* y, float* dx, int64_t n, const Queue& queue) {
  for_each_element(queue, "relu.backward", n, Backward{dy, y, dx});
}

}  // namespace plimsoll::cuda
