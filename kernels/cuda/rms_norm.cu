#include "kernels/cuda/elements.h"
#include "kernels/cuda/rms_norm.h"

namespace plimsoll::cuda {

namespace {

struct Forward {
  const float *x, *w;
  float *y, *rstd;
  float epsilon;
  int64_t channels;
  __device__ void operator()(int64_t r, int lane) const {
    const float* row = x + r * channels;
    float squares = 0;
    for (int64_t c = lane; c < channels; c += 32) squares += row[c] * row[c];
    const float s = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(channels) + epsilon);
    for (int64_t c = lane; c < channels; c += 32) y[r * channels + c] = row[c] * s * w[c];
    if (lane == 0) rstd[r] = s;
  }
};

// With xhat = x * rstd: dx = rstd * (dy * w - xhat * mean(dy * w * xhat)).
struct BackwardInput {
  const float *dy, *x, *w, *rstd;
  float* dx;
  bool accumulate;
  int64_t channels;
  __device__ void operator()(int64_t r, int lane) const {
    const float* g = dy + r * channels;
    const float* row = x + r * channels;
    const float s = rstd[r];
    float sum = 0;
    for (int64_t c = lane; c < channels; c += 32) sum += g[c] * w[c] * (row[c] * s);
    const float mean_gx = warp_sum(sum) / static_cast<float>(channels);
    for (int64_t c = lane; c < channels; c += 32) {
      store(dx + r * channels + c, s * (g[c] * w[c] - row[c] * s * mean_gx), accumulate);
    }
  }
};

struct WeightValue {
  const float *dy, *x, *rstd;
  int64_t channels;
  __device__ float operator()(int64_t r, int64_t c) const {
    return dy[r * channels + c] * (x[r * channels + c] * rstd[r]);
  }
};

}  // namespace

void rms_norm_forward(const float* x, const float* w, float* y, float* rstd, float epsilon,
                      int64_t rows, int64_t channels, const Queue& queue) {
  for_each_row(queue, "rms_norm", rows, Forward{x, w, y, rstd, epsilon, channels});
}

void rms_norm_backward(const float* dy, const float* x, const float* w, const float* rstd,
                       float* dx, bool accumulate_dx, float* dw, bool accumulate_dw, int64_t rows,
                       int64_t channels, const Queue& queue) {
  for_each_row(queue, "rms_norm.backward", rows,
               BackwardInput{dy, x, w, rstd, dx, accumulate_dx, channels});
  sum_columns(queue, "rms_norm.backward", rows, channels, dw, accumulate_dw,
              WeightValue{dy, x, rstd, channels});
}

}  // namespace plimsoll::cuda
