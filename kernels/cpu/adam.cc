#include "kernels/cpu/adam.h"

#include "kernels/cpu/elementwise.h"

#include <cmath>

namespace plimsoll {

template <class T>
void adam(T* param, const T* grad, T* m, T* v, const AdamwOptions& options, int64_t n,
          ThreadPool& pool) {
  const T beta1 = static_cast<T>(options.beta1);
  const T beta2 = static_cast<T>(options.beta2);
  const T rest1 = static_cast<T>(1 - options.beta1);
  const T rest2 = static_cast<T>(1 - options.beta2);
  const T correction1 = static_cast<T>(1 / options.bias_correction1);
  const T correction2 = static_cast<T>(1 / options.bias_correction2);
  const T epsilon = static_cast<T>(options.epsilon);
  const T decay = static_cast<T>(options.weight_decay);
  const T rate = static_cast<T>(options.learning_rate);
  const T clip = static_cast<T>(options.clip_factor);
  for_each_element(n, pool, [=](int64_t i) {
    const T g = grad[i] * clip + decay * param[i];
    const T first = beta1 * m[i] + rest1 * g;
    const T second = beta2 * v[i] + rest2 * g * g;
    m[i] = first;
    v[i] = second;
    param[i] -= rate * (first * correction1 / (std::sqrt(second * correction2) + epsilon));
  });
}

template void adam<float>(float*, const float*, float*, float*, const AdamwOptions&, int64_t,
                          ThreadPool&);
template void adam<double>(double*, const double*, double*, double*, const AdamwOptions&, int64_t,
                           ThreadPool&);

}  // namespace plimsoll
