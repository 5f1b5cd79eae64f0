#include "kernels/cuda/elements.h"
#include "kernels/cuda/layer_norm.h"

namespace plimsoll::cuda {

namespace {

struct Forward {
  const float *x, *w, *b;
  float *y, *mean, *rstd;
  float epsilon;
  int64_t channels;
  __device__ void operator()(int64_t r, int lane) const {
    const float* row = x + r * channels;
    float* out = y + r * channels;
    const float inverse = 1.0F / static_cast<float>(channels);
    float sum = 0;
    for (int64_t c = lane; c < channels; c += 32) sum += row[c];
    const float m = warp_sum(sum) * inverse;
    float squares = 0;
    for (int64_t c = lane; c < channels; c += 32) squares += (row[c] - m) * (row[c] - m);
    const float s = 1.0F / sqrtf(warp_sum(squares) * inverse + epsilon);
    for (int64_t c = lane; c < channels; c += 32) out[c] = (row[c] - m) * s * w[c] + b[c];
    if (lane != 0) return;
    mean[r] = m;
    rstd[r] = s;
  }
};

// With gw = dy * w: dx = rstd * (gw - mean(gw) - xhat * mean(gw * xhat)).
struct BackwardInput {
  const float *dy, *x, *w, *mean, *rstd;
  float* dx;
  bool accumulate;
  int64_t channels;
  __device__ void operator()(int64_t r, int lane) const {
    const float* g = dy + r * channels;
    const float* row = x + r * channels;
    float* out = dx + r * channels;
    const float inverse = 1.0F / static_cast<float>(channels);
    const float m = mean[r];
    const float s = rstd[r];
    float sum_g = 0;
    float sum_gx = 0;
    for (int64_t c = lane; c < channels; c += 32) {
      const float gw = g[c] * w[c];
      sum_g += gw;
      sum_gx += gw * ((row[c] - m) * s);
    }
    const float mean_g = warp_sum(sum_g) * inverse;
    const float mean_gx = warp_sum(sum_gx) * inverse;
    for (int64_t c = lane; c < channels; c += 32) {
      store(out + c, s * (g[c] * w[c] - mean_g - (row[c] - m) * s * mean_gx), accumulate);
    }
  }
};

struct WeightValue {
  const float *dy, *x, *mean, *rstd;
  int64_t channels;
  __device__ float operator()(int64_t r, int64_t c) const {
    return dy[r * channels + c] * ((x[r * channels + c] - mean[r]) * rstd[r]);
  }
};

}  // namespace

void layer_norm_forward(const float* x, const float* w, const float* b, float* y, float* mean,
                        float* rstd, float epsilon, int64_t rows, int64_t channels,
                        const Queue& queue) {
  for_each_row(queue, "layer_norm", rows, Forward{x, w, b, y, mean, rstd, epsilon, channels});
}

void layer_norm_backward_input(const float* dy, const float* x, const float* w, const float* mean,
                               const float* rstd, float* dx, bool accumulate, int64_t rows,
                               int64_t channels, const Queue& queue) {
  for_each_row(queue, "layer_norm.backward", rows,
               BackwardInput{dy, x, w, mean, rstd, dx, accumulate, channels});
}

void layer_norm_backward_weight(const float* dy, const float* x, const float* mean,
                                const float* rstd, float* dw, bool accumulate_dw, float* db,
                                bool accumulate_db, int64_t rows, int64_t channels,
                                const Queue& queue) {
  sum_columns(queue, "layer_norm.backward", rows, channels, dw, accumulate_dw,
              WeightValue{dy, x, mean, rstd, channels});
  sum_columns(queue, "layer_norm.backward", rows, channels, db, accumulate_db,
              MatrixValue{dy, channels});
}

}  // namespace plimsoll::cuda
