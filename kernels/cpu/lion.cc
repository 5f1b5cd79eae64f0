#include "kernels/cpu/lion.h"

#include "kernels/cpu/elementwise.h"

namespace plimsoll {

template <class T>
void lion(T* param, const T* grad, T* momentum, const LionOptions& options, int64_t n,
          ThreadPool& pool) {
  const T beta1 = static_cast<T>(options.beta1);
  const T beta2 = static_cast<T>(options.beta2);
  const T rest1 = static_cast<T>(1 - options.beta1);
  const T rest2 = static_cast<T>(1 - options.beta2);
  const T decay = static_cast<T>(options.weight_decay);
  const T rate = static_cast<T>(options.learning_rate);
  const T clip = static_cast<T>(options.clip_factor);
  for_each_element(n, pool, [=](int64_t i) {
    const T g = grad[i] * clip;
    const T direction = beta1 * momentum[i] + rest1 * g;
    momentum[i] = beta2 * momentum[i] + rest2 * g;
    // A direction of zero is no step.
    const T sign = static_cast<T>((direction > 0 ? 1 : 0) - (direction < 0 ? 1 : 0));
    param[i] -= rate * (sign + decay * param[i]);
  });
}

template void lion<float>(float*, const float*, float*, const LionOptions&, int64_t, ThreadPool&);
template void lion<double>(double*, const double*, double*, const LionOptions&, int64_t,
                           ThreadPool&);

}  // namespace plimsoll
