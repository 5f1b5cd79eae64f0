#include "kernels/cpu/layer_norm.h"

#include "kernels/cpu/elementwise.h"

#include <cmath>

namespace plimsoll {

template <class T>
void layer_norm_forward(const T* x, const T* w, const T* b, T* y, T* mean, T* rstd, T epsilon,
                        int64_t rows, int64_t channels, ThreadPool& pool) {
  const T inverse = T{1} / static_cast<T>(channels);
  for_each_row(rows, channels, pool, [=](int64_t r) {
    const T* row = x + r * channels;
    T* out = y + r * channels;
    const T m = sum(row, channels) * inverse;
    const T variance = lane_sum<T>(
                           channels, [m](auto a) { return (a - m) * (a - m); }, row) *
                       inverse;
    const T s = T{1} / std::sqrt(variance + epsilon);
    PLIMSOLL_INDEPENDENT
    for (int64_t c = 0; c < channels; ++c) out[c] = (row[c] - m) * s * w[c] + b[c];
    mean[r] = m;
    rstd[r] = s;
  });
}

template <class T>
void layer_norm_backward_input(const T* dy, const T* x, const T* w, const T* mean, const T* rstd,
                               T* dx, bool accumulate, int64_t rows, int64_t channels,
                               ThreadPool& pool) {
  const T inverse = T{1} / static_cast<T>(channels);
  for_each_row(rows, channels, pool, [=](int64_t r) {
    const T* g = dy + r * channels;
    const T* row = x + r * channels;
    T* out = dx + r * channels;
    const T m = mean[r];
    const T s = rstd[r];
    // With gw = dy * w: dx = rstd * (gw - mean(gw) - xhat * mean(gw * xhat)).
    const T mean_g = dot(g, w, channels) * inverse;
    const T mean_gx =
        lane_sum<T>(
            channels, [=](auto d, auto a, auto v) { return d * a * ((v - m) * s); }, g, w, row) *
        inverse;
    const auto value = [=](int64_t c) {
      return s * (g[c] * w[c] - mean_g - (row[c] - m) * s * mean_gx);
    };
    if (accumulate) {
      PLIMSOLL_INDEPENDENT
      for (int64_t c = 0; c < channels; ++c) out[c] += value(c);
    } else {
      PLIMSOLL_INDEPENDENT
      for (int64_t c = 0; c < channels; ++c) out[c] = value(c);
    }
  });
}

template <class T>
void layer_norm_backward_weight(const T* dy, const T* x, const T* mean, const T* rstd, T* dw,
                                bool accumulate_dw, T* db, bool accumulate_db, int64_t rows,
                                int64_t channels, ThreadPool& pool) {
  sum_columns(rows, channels, dw, accumulate_dw, pool, [=](int64_t r, int64_t c) {
    return dy[r * channels + c] * ((x[r * channels + c] - mean[r]) * rstd[r]);
  });
  sum_columns(rows, channels, db, accumulate_db, pool,
              [=](int64_t r, int64_t c) { return dy[r * channels + c]; });
}

#define PLIMSOLL_INSTANTIATE(T)                                                                    \
  template void layer_norm_forward<T>(const T*, const T*, const T*, T*, T*, T*, T, int64_t,        \
                                      int64_t, ThreadPool&);                                       \
  template void layer_norm_backward_input<T>(const T*, const T*, const T*, const T*, const T*, T*, \
                                             bool, int64_t, int64_t, ThreadPool&);                 \
  template void layer_norm_backward_weight<T>(const T*, const T*, const T*, const T*, T*, bool,    \
                                              T*, bool, int64_t, int64_t, ThreadPool&);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
