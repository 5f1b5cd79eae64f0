#include "kernels/cpu/rms_norm.h"

#include "kernels/cpu/elementwise.h"

#include <cmath>

namespace plimsoll {

template <class T>
void rms_norm_forward(const T* x, const T* w, T* y, T* rstd, T epsilon, int64_t rows,
                      int64_t channels, ThreadPool& pool) {
  const T inverse = T{1} / static_cast<T>(channels);
  for_each_row(rows, channels, pool, [=](int64_t r) {
    const T* row = x + r * channels;
    T* out = y + r * channels;
    const T s = T{1} / std::sqrt(dot(row, row, channels) * inverse + epsilon);
    PLIMSOLL_INDEPENDENT
    for (int64_t c = 0; c < channels; ++c) out[c] = row[c] * s * w[c];
    rstd[r] = s;
  });
}

template <class T>
void rms_norm_backward(const T* dy, const T* x, const T* w, const T* rstd, T* dx,
                       bool accumulate_dx, T* dw, bool accumulate_dw, int64_t rows,
                       int64_t channels, ThreadPool& pool) {
  const T inverse = T{1} / static_cast<T>(channels);
  for_each_row(rows, channels, pool, [=](int64_t r) {
    const T* g = dy + r * channels;
    const T* row = x + r * channels;
    T* out = dx + r * channels;
    const T s = rstd[r];
    // With xhat = x * rstd: dx = rstd * (dy * w - xhat * mean(dy * w * xhat)).
    const T mean_gx =
        lane_sum<T>(
            channels, [s](auto d, auto a, auto v) { return d * a * (v * s); }, g, w, row) *
        inverse;
    const auto value = [=](int64_t c) { return s * (g[c] * w[c] - row[c] * s * mean_gx); };
    if (accumulate_dx) {
      PLIMSOLL_INDEPENDENT
      for (int64_t c = 0; c < channels; ++c) out[c] += value(c);
    } else {
      PLIMSOLL_INDEPENDENT
      for (int64_t c = 0; c < channels; ++c) out[c] = value(c);
    }
  });
  sum_columns(rows, channels, dw, accumulate_dw, pool, [=](int64_t r, int64_t c) {
    return dy[r * channels + c] * (x[r * channels + c] * rstd[r]);
  });
}

#define PLIMSOLL_INSTANTIATE(T)                                                                    \
  template void rms_norm_forward<T>(const T*, const T*, T*, T*, T, int64_t, int64_t, ThreadPool&); \
  template void rms_norm_backward<T>(const T*, const T*, const T*, const T*, T*, bool, T*, bool,   \
                                     int64_t, int64_t, ThreadPool&);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
