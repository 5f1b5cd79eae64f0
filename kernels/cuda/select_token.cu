#include "kernels/cuda/elements.h"
#include "kernels/cuda/select_token.h"

namespace plimsoll::cuda {

namespace {

struct Forward {
  const float* x;
  float* y;
  int64_t index, length, channels;
  __device__ void operator()(int64_t i) const {
    y[i] = x[(i / channels * length + index) * channels + i % channels];
  }
};

struct Backward {
  const float* dy;
  float* dx;
  int64_t index, length, channels;
  __device__ void operator()(int64_t i) const {
    const int64_t token = i / channels;
    dx[i] = token % length == index ? dy[token / length * channels + i % channels] : 0.0F;
  }
};

}  // namespace

void select_token_forward(const float* x, float* y, int64_t index, int64_t batch, int64_t length,
                          int64_t channels, const Queue& queue) {
  for_each_element(queue, "select_token", batch * channels, Forward{x, y, index, length, channels});
}

void select_token_backward(const float* dy, float* dx, int64_t index, int64_t batch, int64_t length,
                           int64_t channels, const Queue& queue) {
  for_each_element(queue, "select_token.backward", batch * length * channels,
                   Backward{dy, dx, index, length, channels});
}

}  // namespace plimsoll::cuda
