#include "kernels/cuda/elements.h"
#include "kernels/cuda/rope.h"

namespace plimsoll::cuda {

namespace {

constexpr double kTwoPi = 6.283185307179586;

// Radians a position for pair d, with the scaling of Llama 3.1.
__device__ double frequency(const RopeOptions& o, int64_t d) {
  const double plain =
      pow(o.theta, -2.0 * static_cast<double>(d) / static_cast<double>(o.head_dim));
  if (o.scaling_factor == 1) return plain;
  const double wavelength = kTwoPi / plain;
  if (wavelength < o.original_context / o.high_freq_factor) return plain;
  if (wavelength > o.original_context / o.low_freq_factor) return plain / o.scaling_factor;
  const double share = (o.original_context / wavelength - o.low_freq_factor) /
                       (o.high_freq_factor - o.low_freq_factor);
  return (1 - share) * plain / o.scaling_factor + share * plain;
}

// A thread has one pair of one position, and turns it in every head of every sample: the angle, in
// double precision, is worked out once.
struct Turn {
  const float* x;
  float* y;
  RopeOptions o;
  double sign;
  int64_t batch, length;
  __device__ void operator()(int64_t i) const {
    const int64_t half = o.head_dim / 2;
    const int64_t t = i / half;
    const int64_t d = i % half;
    const double angle = static_cast<double>(t) * frequency(o, d);
    const auto cosine = static_cast<float>(cos(angle));
    const auto sine = static_cast<float>(sign * sin(angle));
    const int64_t turned = o.heads + o.kv_heads;
    const int64_t width = (turned + o.kv_heads) * o.head_dim;
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t row = (b * length + t) * width + d;
      for (int64_t h = 0; h < turned + o.kv_heads; ++h) {
        const int64_t at = row + h * o.head_dim;
        const float first = x[at];
        const float second = x[at + half];
        const bool turns = h < turned;
        y[at] = turns ? first * cosine - second * sine : first;
        y[at + half] = turns ? second * cosine + first * sine : second;
      }
    }
  }
};

}  // namespace

void rope(const float* x, float* y, const RopeOptions& options, bool backward, int64_t batch,
          int64_t length, const Queue& queue) {
  for_each_element(queue, backward ? "rope.backward" : "rope", length * (options.head_dim / 2),
                   Turn{x, y, options, backward ? -1.0 : 1.0, batch, length});
}

}  // namespace plimsoll::cuda
