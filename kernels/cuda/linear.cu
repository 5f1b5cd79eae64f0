#include "kernels/cuda/elements.h"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/matmul.h"

namespace plimsoll::cuda {

namespace {

struct AddBias {
  const float* bias;
  float* y;
  int64_t n;
  __device__ void operator()(int64_t i) const { y[i] += bias[i % n]; }
};

}  // namespace

void linear_forward(const float* x, const float* w, const float* bias, float* y, int64_t rows,
                    int64_t k, int64_t n, const Queue& queue) {
  matmul(rows, n, k, 1, {x, k}, {w, k, true}, false, y, n, queue);
  if (bias != nullptr) for_each_element(queue, "linear.bias", rows * n, AddBias{bias, y, n});
}

void linear_backward_input(const float* dy, const float* w, float* dx, bool accumulate,
                           int64_t rows, int64_t k, int64_t n, const Queue& queue) {
  matmul(rows, k, n, 1, {dy, n}, {w, k}, accumulate, dx, k, queue);
}

void linear_backward_weight(const float* x, const float* dy, float* dw, bool accumulate,
                            int64_t rows, int64_t k, int64_t n, const Queue& queue) {
  matmul(n, k, rows, 1, {dy, n, true}, {x, k}, accumulate, dw, k, queue);
}

void linear_backward_bias(const float* dy, float* dbias, bool accumulate, int64_t rows, int64_t n,
                          const Queue& queue) {
  sum_columns(queue, "linear.backward_bias", rows, n, dbias, accumulate, MatrixValue{dy, n});
}

}  // namespace plimsoll::cuda
