#include "kernels/cuda/elements.h"
#include "kernels/cuda/sgd.h"

namespace plimsoll::cuda {

namespace {

struct Update {
  float* param;
  const float* grad;
  float* momentum;
  SgdOptions o;
  __device__ void operator()(int64_t i) const {
    if (*o.skip != 0) return;
    float step = grad[i] * static_cast<float>(*o.clip_factor) + o.weight_decay * param[i];
    if (momentum != nullptr) {
      step = o.momentum * momentum[i] + step;
      momentum[i] = step;
    }
    param[i] -= static_cast<float>(*o.learning_rate) * step;
  }
};

}  // namespace

void sgd(float* param, const float* grad, float* momentum, const SgdOptions& options, int64_t n,
         const Queue& queue) {
  for_each_element(queue, "sgd", n, Update{param, grad, momentum, options});
}

}  // namespace plimsoll::cuda
