#include "kernels/cpu/prepend_token.h"

#include "kernels/cpu/elementwise.h"

namespace plimsoll {

template <class T>
void prepend_token_forward(const T* x, const T* token, T* y, int64_t batch, int64_t length,
                           int64_t channels, ThreadPool& pool) {
  const int64_t in_size = length * channels;
  for_each_row(batch, in_size, pool, [=](int64_t b) {
    T* out = y + b * (in_size + channels);
    std::copy_n(token, channels, out);
    std::copy_n(x + b * in_size, in_size, out + channels);
  });
}

template <class T>
void prepend_token_backward(const T* dy, T* dx, T* dtoken, bool accumulate_dtoken, int64_t batch,
                            int64_t length, int64_t channels, ThreadPool& pool) {
  const int64_t in_size = length * channels;
  const int64_t out_size = in_size + channels;
  for_each_row(batch, in_size, pool, [=](int64_t b) {
    std::copy_n(dy + b * out_size + channels, in_size, dx + b * in_size);
  });
  sum_columns(batch, channels, dtoken, accumulate_dtoken, pool,
              [=](int64_t b, int64_t c) { return dy[b * out_size + c]; });
}

#define PLIMSOLL_INSTANTIATE(T)                                                              \
  template void prepend_token_forward<T>(const T*, const T*, T*, int64_t, int64_t, int64_t,  \
                                         ThreadPool&);                                       \
  template void prepend_token_backward<T>(const T*, T*, T*, bool, int64_t, int64_t, int64_t, \
                                          ThreadPool&);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
