#include "kernels/cpu/global_avg_pool.h"

#include "kernels/cpu/elementwise.h"

namespace plimsoll {

template <class T>
void global_avg_pool_forward(const T* x, T* y, int64_t planes, int64_t pixels, ThreadPool& pool) {
  for_each_row(planes, pixels, pool,
               [=](int64_t p) { y[p] = sum(x + p * pixels, pixels) / static_cast<T>(pixels); });
}

template <class T>
void global_avg_pool_backward(const T* dy, T* dx, int64_t planes, int64_t pixels,
                              ThreadPool& pool) {
  for_each_row(planes, pixels, pool, [=](int64_t p) {
    std::fill_n(dx + p * pixels, pixels, dy[p] / static_cast<T>(pixels));
  });
}

#define PLIMSOLL_INSTANTIATE(T)                                                          \
  template void global_avg_pool_forward<T>(const T*, T*, int64_t, int64_t, ThreadPool&); \
  template void global_avg_pool_backward<T>(const T*, T*, int64_t, int64_t, ThreadPool&);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
