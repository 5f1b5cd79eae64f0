#include "kernels/cuda/elements.h"
#include "kernels/cuda/swiglu.h"

namespace plimsoll::cuda {

namespace {

struct Forward {
  const float* gate_up;
  float* y;
  int64_t features;
  __device__ void operator()(int64_t i) const {
    const int64_t at = i / features * 2 * features + i % features;
    const float z = gate_up[at];
    y[i] = gate_up[at + features] * (z / (1.0F + expf(-z)));
  }
};

struct Backward {
  const float* dy;
  const float* gate_up;
  float* dgate_up;
  int64_t features;
  __device__ void operator()(int64_t i) const {
    const int64_t at = i / features * 2 * features + i % features;
    const float z = gate_up[at];
    const float up = gate_up[at + features];
    const float s = 1.0F / (1.0F + expf(-z));
    dgate_up[at] = dy[i] * up * (s * (1 + z * (1 - s)));
    dgate_up[at + features] = dy[i] * (z * s);
  }
};

}  // namespace

void swiglu_forward(const float* gate_up, float* y, int64_t rows, int64_t features,
                    const Queue& queue) {
  for_each_element(queue, "swiglu", rows * features, Forward{gate_up, y, features});
}

void swiglu_backward(const float* dy, const float* gate_up, float* dgate_up, int64_t rows,
                     int64_t features, const Queue& queue) {
  for_each_element(queue, "swiglu.backward", rows * features,
                   Backward{dy, gate_up, dgate_up, features});
}

}  // namespace plimsoll::cuda
