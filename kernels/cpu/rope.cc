#include "kernels/cpu/rope.h"

#include "base/error.h"
#include "kernels/cpu/elementwise.h"

#include <cmath>
#include <numbers>

namespace plimsoll {
namespace {

// Radians a position for pair `d`, with the scaling of Llama 3.1 ("The Llama 3 Herd of Models" and
// its released configuration): long waves are slowed by the factor, short ones kept, and between
// the two borders the frequency is interpolated.
double frequency(const RopeOptions& o, int64_t d) {
  const double plain =
      std::pow(o.theta, -2.0 * static_cast<double>(d) / static_cast<double>(o.head_dim));
  if (o.scaling_factor == 1) return plain;
  const double wavelength = 2 * std::numbers::pi / plain;
  if (wavelength < o.original_context / o.high_freq_factor) return plain;
  if (wavelength > o.original_context / o.low_freq_factor) return plain / o.scaling_factor;
  const double share = (o.original_context / wavelength - o.low_freq_factor) /
                       (o.high_freq_factor - o.low_freq_factor);
  return (1 - share) * plain / o.scaling_factor + share * plain;
}

template <class T>
void turn_head(const T* x, T* y, const T* cosine, const T* sine, int64_t half) {
  PLIMSOLL_INDEPENDENT
  for (int64_t d = 0; d < half; ++d) {
    const T a = x[d];
    const T b = x[d + half];
    y[d] = a * cosine[d] - b * sine[d];
    y[d + half] = b * cosine[d] + a * sine[d];
  }
}

}  // namespace

template <class T>
void rope(const T* x, T* y, const RopeOptions& options, bool backward, int64_t batch,
          int64_t length, ThreadPool& pool) {
  const int64_t half = options.head_dim / 2;
  PLIMSOLL_CHECK(options.head_dim % 2 == 0 && options.head_dim <= kMaxRopeHeadDim,
                 "rope: head_dim {} must be even and at most {}", options.head_dim,
                 kMaxRopeHeadDim);
  double radians[kMaxRopeHeadDim / 2];
  for (int64_t d = 0; d < half; ++d) radians[d] = frequency(options, d);
  const int64_t turned = options.heads + options.kv_heads;
  const int64_t width = (turned + options.kv_heads) * options.head_dim;
  const double sign = backward ? -1 : 1;
  for_each_row(length, batch * width, pool, [&](int64_t t) {
    T cosine[kMaxRopeHeadDim / 2];
    T sine[kMaxRopeHeadDim / 2];
    for (int64_t d = 0; d < half; ++d) {
      const double angle = static_cast<double>(t) * radians[d];
      cosine[d] = static_cast<T>(std::cos(angle));
      sine[d] = static_cast<T>(sign * std::sin(angle));
    }
    for (int64_t b = 0; b < batch; ++b) {
      const T* from = x + (b * length + t) * width;
      T* to = y + (b * length + t) * width;
      for (int64_t h = 0; h < turned; ++h) {
        turn_head(from + h * options.head_dim, to + h * options.head_dim, cosine, sine, half);
      }
      if (from == to) continue;
      const int64_t values = turned * options.head_dim;
      std::copy_n(from + values, width - values, to + values);
    }
  });
}

#define PLIMSOLL_INSTANTIATE(T) \
  template void rope<T>(const T*, T*, const RopeOptions&, bool, int64_t, int64_t, ThreadPool&);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
