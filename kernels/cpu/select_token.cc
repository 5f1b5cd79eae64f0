#include "kernels/cpu/select_token.h"

#include "base/error.h"
#include "kernels/cpu/elementwise.h"

namespace plimsoll {

template <class T>
void select_token_forward(const T* x, T* y, int64_t index, int64_t batch, int64_t length,
                          int64_t channels, ThreadPool& pool) {
  PLIMSOLL_CHECK(index >= 0 && index < length, "select_token: {} of {}", index, length);
  for_each_row(batch, channels, pool, [=](int64_t b) {
    std::copy_n(x + (b * length + index) * channels, channels, y + b * channels);
  });
}

template <class T>
void select_token_backward(const T* dy, T* dx, int64_t index, int64_t batch, int64_t length,
                           int64_t channels, ThreadPool& pool) {
  PLIMSOLL_CHECK(index >= 0 && index < length, "select_token: {} of {}", index, length);
  for_each_row(batch, length * channels, pool, [=](int64_t b) {
    T* out = dx + b * length * channels;
    std::fill_n(out, length * channels, T{0});
    std::copy_n(dy + b * channels, channels, out + index * channels);
  });
}

#define PLIMSOLL_INSTANTIATE(T)                                                            \
  template void select_token_forward<T>(const T*, T*, int64_t, int64_t, int64_t, int64_t,  \
                                        ThreadPool&);                                      \
  template void select_token_backward<T>(const T*, T*, int64_t, int64_t, int64_t, int64_t, \
                                         ThreadPool&);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
