#include "kernels/cpu/batch_norm.h"

#include "kernels/cpu/elementwise.h"

#include <cmath>

namespace plimsoll {
namespace {

// y = x * scale + shift over the planes of channel c.
template <class T>
void scale_channel(const T* x, T* y, T mean, T scale, T shift, int64_t c, const BatchNormShape& s) {
  for (int64_t n = 0; n < s.batch; ++n) {
    const int64_t plane = (n * s.channels + c) * s.pixels;
    PLIMSOLL_INDEPENDENT
    for (int64_t i = plane; i < plane + s.pixels; ++i) y[i] = (x[i] - mean) * scale + shift;
  }
}

// Sum over the planes of channel c of f, one image after the other.
template <class F, class... P>
double channel_sum(const BatchNormShape& s, int64_t c, const F& f, const P*... p) {
  double total = 0;
  for (int64_t n = 0; n < s.batch; ++n) {
    const int64_t plane = (n * s.channels + c) * s.pixels;
    total += lane_sum_f64(s.pixels, f, p + plane...);
  }
  return total;
}

template <class T>
void store(T* out, bool accumulate, double value) {
  *out = accumulate ? *out + static_cast<T>(value) : static_cast<T>(value);
}

}  // namespace

template <class T>
void batch_norm_forward(const T* x, const T* w, const T* b, T* y, T* mean, T* rstd, double epsilon,
                        const BatchNormShape& shape, ThreadPool& pool) {
  const double inverse = 1 / static_cast<double>(shape.count());
  for_each_row(shape.channels, shape.count(), pool, [&](int64_t c) {
    const double m = channel_sum(
                         shape, c, [](auto a) { return a; }, x) *
                     inverse;
    const double variance = channel_sum(
                                shape, c, [m](auto a) { return (a - m) * (a - m); }, x) *
                            inverse;
    mean[c] = static_cast<T>(m);
    rstd[c] = static_cast<T>(1 / std::sqrt(variance + epsilon));
    scale_channel(x, y, mean[c], rstd[c] * w[c], b[c], c, shape);
  });
}

template <class T>
void batch_norm_backward(const T* dy, const T* x, const T* w, const T* mean, const T* rstd, T* dx,
                         bool accumulate_dx, T* dw, bool accumulate_dw, T* db, bool accumulate_db,
                         const BatchNormShape& shape, ThreadPool& pool) {
  const double inverse = 1 / static_cast<double>(shape.count());
  for_each_row(shape.channels, shape.count(), pool, [&](int64_t c) {
    const T m = mean[c];
    const T s = rstd[c];
    const double wide_mean = static_cast<double>(m);
    const double sum_g = channel_sum(
        shape, c, [](auto g) { return g; }, dy);
    const double sum_gx =
        channel_sum(
            shape, c, [wide_mean](auto g, auto a) { return g * (a - wide_mean); }, dy, x) *
        static_cast<double>(s);
    store(dw + c, accumulate_dw, sum_gx);
    store(db + c, accumulate_db, sum_g);
    // dx = rstd * w * (dy - mean(dy) - xhat * mean(dy * xhat)).
    const T scale = s * w[c];
    const T mean_g = static_cast<T>(sum_g * inverse);
    const T slope = s * static_cast<T>(sum_gx * inverse);
    for (int64_t n = 0; n < shape.batch; ++n) {
      const int64_t plane = (n * shape.channels + c) * shape.pixels;
      const int64_t end = plane + shape.pixels;
      const auto value = [=](int64_t i) { return scale * (dy[i] - mean_g - (x[i] - m) * slope); };
      if (accumulate_dx) {
        PLIMSOLL_INDEPENDENT
        for (int64_t i = plane; i < end; ++i) dx[i] += value(i);
      } else {
        PLIMSOLL_INDEPENDENT
        for (int64_t i = plane; i < end; ++i) dx[i] = value(i);
      }
    }
  });
}

template <class T>
void batch_norm_inference(const T* x, const T* w, const T* b, const T* running, T* y,
                          double epsilon, const BatchNormShape& shape, ThreadPool& pool) {
  for_each_row(shape.channels, shape.count(), pool, [&](int64_t c) {
    const double variance = static_cast<double>(running[shape.channels + c]);
    const T scale = static_cast<T>(1 / std::sqrt(variance + epsilon)) * w[c];
    scale_channel(x, y, running[c], scale, b[c], c, shape);
  });
}

template <class T>
void batch_norm_statistics(const T* mean, const T* rstd, T* statistics, bool accumulate,
                           double epsilon, int64_t count, int64_t channels) {
  const double unbiased =
      count > 1 ? static_cast<double>(count) / static_cast<double>(count - 1) : 1;
  for (int64_t c = 0; c < channels; ++c) {
    const double s = static_cast<double>(rstd[c]);
    const double variance = std::max(0.0, 1 / (s * s) - epsilon) * unbiased;
    store(statistics + c, accumulate, static_cast<double>(mean[c]));
    store(statistics + channels + c, accumulate, variance);
  }
}

template <class T>
void batch_norm_running(const T* statistics, T* state, double momentum, double count, int64_t n,
                        ThreadPool& pool) {
  const T keep = static_cast<T>(1 - momentum);
  const T take = static_cast<T>(momentum / count);
  for_each_element(n, pool, [=](int64_t i) { state[i] = keep * state[i] + take * statistics[i]; });
}

#define PLIMSOLL_INSTANTIATE(T)                                                                    \
  template void batch_norm_forward<T>(const T*, const T*, const T*, T*, T*, T*, double,            \
                                      const BatchNormShape&, ThreadPool&);                         \
  template void batch_norm_backward<T>(const T*, const T*, const T*, const T*, const T*, T*, bool, \
                                       T*, bool, T*, bool, const BatchNormShape&, ThreadPool&);    \
  template void batch_norm_inference<T>(const T*, const T*, const T*, const T*, T*, double,        \
                                        const BatchNormShape&, ThreadPool&);                       \
  template void batch_norm_statistics<T>(const T*, const T*, T*, bool, double, int64_t, int64_t);  \
  template void batch_norm_running<T>(const T*, T*, double, double, int64_t, ThreadPool&);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
