#include "kernels/cpu/bias_add.h"

#include "kernels/cpu/elementwise.h"

namespace plimsoll {

template <class T>
void add_bias(const T* x, const T* bias, T* y, int64_t rows, int64_t n, ThreadPool& pool) {
  for_each_row(rows, n, pool, [=](int64_t r) {
    const T* from = x + r * n;
    T* to = y + r * n;
    PLIMSOLL_INDEPENDENT
    for (int64_t c = 0; c < n; ++c) to[c] = from[c] + bias[c];
  });
}

template void add_bias<float>(const float*, const float*, float*, int64_t, int64_t, ThreadPool&);
template void add_bias<double>(const double*, const double*, double*, int64_t, int64_t,
                               ThreadPool&);

}  // namespace plimsoll
