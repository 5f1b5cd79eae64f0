#include "kernels/cpu/sgd.h"

#include "kernels/cpu/elementwise.h"

namespace plimsoll {

template <class T>
void sgd(T* param, const T* grad, T* momentum, const SgdOptions& options, int64_t n,
         ThreadPool& pool) {
  const T mu = static_cast<T>(options.momentum);
  const T decay = static_cast<T>(options.weight_decay);
  const T rate = static_cast<T>(options.learning_rate);
  const T clip = static_cast<T>(options.clip_factor);
  if (momentum == nullptr) {
    for_each_element(n, pool,
                     [=](int64_t i) { param[i] -= rate * (grad[i] * clip + decay * param[i]); });
    return;
  }
  for_each_element(n, pool, [=](int64_t i) {
    const T step = mu * momentum[i] + (grad[i] * clip + decay * param[i]);
    momentum[i] = step;
    param[i] -= rate * step;
  });
}

template void sgd<float>(float*, const float*, float*, const SgdOptions&, int64_t, ThreadPool&);
template void sgd<double>(double*, const double*, double*, const SgdOptions&, int64_t, ThreadPool&);

}  // namespace plimsoll
