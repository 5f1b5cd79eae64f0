#include "kernels/cpu/embedding.h"

#include "base/error.h"
#include "kernels/cpu/elementwise.h"

#include <algorithm>

namespace plimsoll {

template <class T>
void embedding_forward(const int32_t* tokens, const T* table, T* y, int64_t rows,
                       int64_t vocabulary, int64_t channels, ThreadPool& pool, bool shared,
                       int64_t first) {
  for_each_row(rows, channels, pool, [=](int64_t r) {
    const int64_t token = tokens[r] - first;
    if (shared && (token < 0 || token >= vocabulary)) {
      std::fill_n(y + r * channels, channels, T{0});
      return;
    }
    PLIMSOLL_CHECK(token >= 0 && token < vocabulary, "token {} of {}", token, vocabulary);
    std::copy_n(table + token * channels, channels, y + r * channels);
  });
}

template <class T>
void embedding_backward(const int32_t* tokens, const T* dy, T* dtable, bool accumulate,
                        int32_t* workspace, int64_t rows, int64_t vocabulary, int64_t channels,
                        ThreadPool& pool, bool shared, int64_t first) {
  // A list of positions for each table row; built backwards, so each list is in index order.
  int32_t* head = workspace;
  int32_t* next = workspace + vocabulary;
  std::fill_n(head, vocabulary, -1);
  for (int64_t r = rows - 1; r >= 0; --r) {
    const int64_t token = tokens[r] - first;
    if (shared && (token < 0 || token >= vocabulary)) continue;
    PLIMSOLL_CHECK(token >= 0 && token < vocabulary, "token {} of {}", token, vocabulary);
    next[r] = head[token];
    head[token] = static_cast<int32_t>(r);
  }
  for_each_row(vocabulary, channels, pool, [=](int64_t token) {
    T* out = dtable + token * channels;
    if (head[token] < 0) {
      if (!accumulate) std::fill_n(out, channels, T{0});
      return;
    }
    for (int64_t begin = 0; begin < channels; begin += kColumnStrip) {
      const int64_t width = std::min(kColumnStrip, channels - begin);
      T total[kColumnStrip] = {};
      for (int32_t r = head[token]; r >= 0; r = next[r]) {
        const T* from = dy + r * channels + begin;
        for (int64_t c = 0; c < width; ++c) total[c] += from[c];
      }
      for (int64_t c = 0; c < width; ++c) {
        out[begin + c] = accumulate ? out[begin + c] + total[c] : total[c];
      }
    }
  });
}

#define PLIMSOLL_INSTANTIATE(T)                                                               \
  template void embedding_forward<T>(const int32_t*, const T*, T*, int64_t, int64_t, int64_t, \
                                     ThreadPool&, bool, int64_t);                             \
  template void embedding_backward<T>(const int32_t*, const T*, T*, bool, int32_t*, int64_t,  \
                                      int64_t, int64_t, ThreadPool&, bool, int64_t);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
