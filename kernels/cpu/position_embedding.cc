#include "kernels/cpu/position_embedding.h"

#include "kernels/cpu/elementwise.h"

namespace plimsoll {

template <class T>
void position_embedding_forward(const T* x, const T* table, T* y, int64_t batch, int64_t length,
                                int64_t channels, ThreadPool& pool, int64_t first) {
  for_each_row(batch * length, channels, pool, [=](int64_t r) {
    const T* row = x + r * channels;
    const T* position = table + (first + r % length) * channels;
    T* out = y + r * channels;
    PLIMSOLL_INDEPENDENT
    for (int64_t c = 0; c < channels; ++c) out[c] = row[c] + position[c];
  });
}

template <class T>
void position_embedding_backward(const T* dy, T* dtable, bool accumulate, int64_t batch,
                                 int64_t length, int64_t max_length, int64_t channels,
                                 ThreadPool& pool, int64_t first) {
  const int64_t used = length * channels;
  const int64_t before = first * channels;
  sum_columns(batch, used, dtable + before, accumulate, pool,
              [dy, used](int64_t b, int64_t i) { return dy[b * used + i]; });
  if (accumulate) return;
  for_each_element(before, pool, [dtable](int64_t i) { dtable[i] = T{0}; });
  for_each_element(max_length * channels - used - before, pool,
                   [rest = dtable + before + used](int64_t i) { rest[i] = T{0}; });
}

#define PLIMSOLL_INSTANTIATE(T)                                                                  \
  template void position_embedding_forward<T>(const T*, const T*, T*, int64_t, int64_t, int64_t, \
                                              ThreadPool&, int64_t);                             \
  template void position_embedding_backward<T>(const T*, T*, bool, int64_t, int64_t, int64_t,    \
                                               int64_t, ThreadPool&, int64_t);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
