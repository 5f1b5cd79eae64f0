#include "kernels/cpu/linear.h"

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/matmul.h"

namespace plimsoll {

template <class T>
void linear_forward(const T* x, const T* w, const T* bias, T* y, int64_t rows, int64_t k, int64_t n,
                    ThreadPool& pool) {
  matmul<T>(rows, n, k, {x, k}, {w, k, true}, false, y, n, pool, bias);
}

template <class T>
void linear_backward_input(const T* dy, const T* w, T* dx, bool accumulate, int64_t rows, int64_t k,
                           int64_t n, ThreadPool& pool) {
  matmul<T>(rows, k, n, {dy, n}, {w, k}, accumulate, dx, k, pool);
}

template <class T>
void linear_backward_weight(const T* x, const T* dy, T* dw, bool accumulate, int64_t rows,
                            int64_t k, int64_t n, ThreadPool& pool) {
  matmul<T>(n, k, rows, {dy, n, true}, {x, k}, accumulate, dw, k, pool);
}

template <class T>
void linear_backward_bias(const T* dy, T* dbias, bool accumulate, int64_t rows, int64_t n,
                          ThreadPool& pool) {
  sum_columns(rows, n, dbias, accumulate, pool,
              [dy, n](int64_t r, int64_t c) { return dy[r * n + c]; });
}

#define PLIMSOLL_INSTANTIATE(T)                                                                    \
  template void linear_forward<T>(const T*, const T*, const T*, T*, int64_t, int64_t, int64_t,     \
                                  ThreadPool&);                                                    \
  template void linear_backward_input<T>(const T*, const T*, T*, bool, int64_t, int64_t, int64_t,  \
                                         ThreadPool&);                                             \
  template void linear_backward_weight<T>(const T*, const T*, T*, bool, int64_t, int64_t, int64_t, \
                                          ThreadPool&);                                            \
  template void linear_backward_bias<T>(const T*, T*, bool, int64_t, int64_t, ThreadPool&);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
