#include "kernels/cpu/image_to_tokens.h"

#include "kernels/cpu/elementwise.h"

namespace plimsoll {

template <class T>
void exchange_last_two(const T* x, T* y, int64_t batch, int64_t m, int64_t n, ThreadPool& pool) {
  constexpr int64_t kTile = 16;  // a cache line of floats in both directions
  const int64_t num_strips = (n + kTile - 1) / kTile;
  pool.parallel_for(batch * num_strips, [=](int64_t task) {
    const T* from = x + task / num_strips * m * n;
    T* to = y + task / num_strips * m * n;
    const int64_t begin = task % num_strips * kTile;
    const int64_t end = std::min(n, begin + kTile);
    for (int64_t row = 0; row < m; row += kTile) {
      for (int64_t j = begin; j < end; ++j) {
        for (int64_t i = row; i < std::min(m, row + kTile); ++i) to[j * m + i] = from[i * n + j];
      }
    }
  });
}

template void exchange_last_two<float>(const float*, float*, int64_t, int64_t, int64_t,
                                       ThreadPool&);
template void exchange_last_two<double>(const double*, double*, int64_t, int64_t, int64_t,
                                        ThreadPool&);

}  // namespace plimsoll
