#include "kernels/cpu/mse.h"

#include "kernels/cpu/elementwise.h"

namespace plimsoll {

template <class T>
void mse_rows(const T* prediction, const T* target, T* row_loss, int64_t rows, int64_t columns,
              ThreadPool& pool) {
  for_each_row(rows, columns, pool, [=](int64_t r) {
    row_loss[r] = lane_sum<T>(
        columns, [](auto p, auto t) { return (p - t) * (p - t); }, prediction + r * columns,
        target + r * columns);
  });
}

template <class T>
void mse_backward(const T* prediction, const T* target, T* dprediction, double scale, int64_t n,
                  ThreadPool& pool) {
  const T factor = static_cast<T>(2 * scale);
  for_each_element(n, pool,
                   [=](int64_t i) { dprediction[i] = (prediction[i] - target[i]) * factor; });
}

#define PLIMSOLL_INSTANTIATE(T)                                                     \
  template void mse_rows<T>(const T*, const T*, T*, int64_t, int64_t, ThreadPool&); \
  template void mse_backward<T>(const T*, const T*, T*, double, int64_t, ThreadPool&);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
