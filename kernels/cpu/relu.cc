#include "kernels/cpu/relu.h"

#include "kernels/cpu/elementwise.h"

namespace plimsoll {

template <class T>
void relu_forward(const T* x, T* y, int64_t n, ThreadPool& pool) {
  // "Not below zero" rather than "above zero": a NaN stays one.
  for_each_element(n, pool, [=](int64_t i) { y[i] = x[i] < T{0} ? T{0} : x[i]; });
}

template <class T>
void relu_backward(const T* dy, const T* y, T* dx, int64_t n, ThreadPool& pool) {
  for_each_element(n, pool, [=](int64_t i) {
    const T g = dy[i];
    dx[i] = y[i] > T{0} ? g : T{0};
  });
}

#define PLIMSOLL_INSTANTIATE(T)                                      \
  template void relu_forward<T>(const T*, T*, int64_t, ThreadPool&); \
  template void relu_backward<T>(const T*, const T*, T*, int64_t, ThreadPool&);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
