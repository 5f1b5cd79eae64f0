#include "kernels/cpu/swiglu.h"

#include "kernels/cpu/elementwise.h"

namespace plimsoll {

template <class T>
void swiglu_forward(const T* gate_up, T* y, int64_t rows, int64_t features, ThreadPool& pool) {
  for_each_row(rows, 2 * features, pool, [=](int64_t r) {
    const T* gate = gate_up + r * 2 * features;
    const T* up = gate + features;
    T* out = y + r * features;
    PLIMSOLL_INDEPENDENT
    for (int64_t i = 0; i < features; ++i) out[i] = up[i] * (gate[i] * sigmoid(gate[i]));
  });
}

template <class T>
void swiglu_backward(const T* dy, const T* gate_up, T* dgate_up, int64_t rows, int64_t features,
                     ThreadPool& pool) {
  for_each_row(rows, 2 * features, pool, [=](int64_t r) {
    const T* g = dy + r * features;
    const T* gate = gate_up + r * 2 * features;
    const T* up = gate + features;
    T* dgate = dgate_up + r * 2 * features;
    T* dup = dgate + features;
    PLIMSOLL_INDEPENDENT
    for (int64_t i = 0; i < features; ++i) {
      const T z = gate[i];
      const T u = up[i];
      const T s = sigmoid(z);
      dgate[i] = g[i] * u * (s * (T{1} + z * (T{1} - s)));
      dup[i] = g[i] * (z * s);
    }
  });
}

#define PLIMSOLL_INSTANTIATE(T)                                                 \
  template void swiglu_forward<T>(const T*, T*, int64_t, int64_t, ThreadPool&); \
  template void swiglu_backward<T>(const T*, const T*, T*, int64_t, int64_t, ThreadPool&);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
