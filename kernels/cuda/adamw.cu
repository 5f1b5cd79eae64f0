#include "kernels/cuda/adamw.h"
#include "kernels/cuda/elements.h"

namespace plimsoll::cuda {

namespace {

struct Update {
  float* param;
  const float* grad;
  float *m, *v;
  AdamwOptions o;
  __device__ void operator()(int64_t i) const {
    if (*o.skip != 0) return;
    const float g = grad[i] * static_cast<float>(*o.clip_factor);
    const float first = o.beta1 * m[i] + o.rest1 * g;
    const float second = o.beta2 * v[i] + o.rest2 * g * g;
    m[i] = first;
    v[i] = second;
    const auto correction1 = static_cast<float>(1 / *o.bias_correction1);
    const auto correction2 = static_cast<float>(1 / *o.bias_correction2);
    const float step = first * correction1 / (sqrtf(second * correction2) + o.epsilon);
    param[i] -= static_cast<float>(*o.learning_rate) * (step + o.weight_decay * param[i]);
  }
};

}  // namespace

void adamw(float* param, const float* grad, float* m, float* v, const AdamwOptions& options,
           int64_t n, const Queue& queue) {
  for_each_element(queue, "adamw", n, Update{param, grad, m, v, options});
}

}  // namespace plimsoll::cuda
