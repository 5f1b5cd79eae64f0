#include "kernels/cuda/elements.h"
#include "kernels/cuda/gradient_norm.h"

namespace plimsoll::cuda {

namespace {

constexpr int64_t kScratchBytes = kThreads / 32 * static_cast<int64_t>(sizeof(double));

__global__ void __launch_bounds__(kThreads)
    sum_squares_kernel(const float* x, double* term, int64_t n) {
  double* scratch = dynamic_shared<double>();
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) {
    const auto value = static_cast<double>(x[i]);
    sum += value * value;
  }
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) *term = sum;
}

struct SumTerms {
  const double* terms;
  double* total;
  bool accumulate;
  int64_t n;
  __device__ void operator()(int64_t) const {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += terms[i];
    *total = accumulate ? *total + sum : sum;
  }
};

struct Clip {
  const double* terms;
  double *norm, *factor;
  double max_norm;
  int64_t n;
  __device__ void operator()(int64_t) const {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += terms[i];
    const double root = sqrt(sum);
    *norm = root;
    *factor = max_norm == 0 || root <= max_norm ? 1 : max_norm / root;
  }
};

}  // namespace

void sum_squares(const float* x, double* term, int64_t n, const Queue& queue) {
  launch(queue, "sum_squares", sum_squares_kernel, 1U, kThreads, kScratchBytes, x, term, n);
}

void sum_terms(const double* terms, double* total, bool accumulate, int64_t n, const Queue& queue) {
  for_each_element(queue, "sum_terms", 1, SumTerms{terms, total, accumulate, n});
}

void clip(const double* terms, double* norm, double* factor, double max_norm, int64_t n,
          const Queue& queue) {
  for_each_element(queue, "clip", 1, Clip{terms, norm, factor, max_norm, n});
}

}  // namespace plimsoll::cuda
