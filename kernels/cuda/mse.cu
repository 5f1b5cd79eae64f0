#include "kernels/cuda/elements.h"
#include "kernels/cuda/mse.h"

namespace plimsoll::cuda {

namespace {

struct Rows {
  const float *prediction, *target;
  float* row_loss;
  int64_t columns;
  __device__ void operator()(int64_t r, int lane) const {
    float sum = 0;
    for (int64_t c = lane; c < columns; c += 32) {
      const float d = prediction[r * columns + c] - target[r * columns + c];
      sum += d * d;
    }
    sum = warp_sum(sum);
    if (lane == 0) row_loss[r] = sum;
  }
};

struct Backward {
  const float *prediction, *target;
  float* dprediction;
  const double* scale;
  __device__ void operator()(int64_t i) const {
    dprediction[i] = (prediction[i] - target[i]) * static_cast<float>(2 * *scale);
  }
};

}  // namespace

void mse_rows(const float* prediction, const float* target, float* row_loss, int64_t rows,
              int64_t columns, const Queue& queue) {
  for_each_row(queue, "mse", rows, Rows{prediction, target, row_loss, columns});
}

void mse_backward(const float* prediction, const float* target, float* dprediction,
                  const double* scale, int64_t n, const Queue& queue) {
  for_each_element(queue, "mse.backward", n, Backward{prediction, target, dprediction, scale});
}

}  // namespace plimsoll::cuda
