#include "kernels/cuda/cross_entropy.h"
#include "kernels/cuda/elements.h"

namespace plimsoll::cuda {

namespace {

constexpr float kLowest = -3.402823466e38F;

__global__ void __launch_bounds__(kThreads)
    rows_kernel(const float* logits, const int32_t* targets, float* row_loss, float* lse,
                int64_t vocabulary) {
  float* scratch = dynamic_shared<float>();
  const int64_t r = blockIdx.x;
  const float* row = logits + r * vocabulary;
  float largest = kLowest;
  for (int64_t i = threadIdx.x; i < vocabulary; i += kThreads) {
    largest = row[i] > largest ? row[i] : largest;
  }
  largest = block_max(largest, scratch);
  float sum = 0;
  for (int64_t i = threadIdx.x; i < vocabulary; i += kThreads) sum += expf(row[i] - largest);
  sum = block_sum(sum, scratch);
  if (threadIdx.x != 0) return;
  const int32_t target = targets[r];
  const float row_lse = largest + logf(sum);
  lse[r] = row_lse;
  row_loss[r] = target == kIgnoredTarget ? 0.0F : row_lse - row[target];
}

struct Backward {
  const float* logits;
  const int32_t* targets;
  const float* lse;
  float* dlogits;
  const double* scale;
  int64_t vocabulary;
  __device__ void operator()(int64_t i) const {
    const int64_t r = i / vocabulary;
    const int32_t target = targets[r];
    const float p = expf(logits[i] - lse[r]) - (i % vocabulary == target ? 1.0F : 0.0F);
    dlogits[i] = target == kIgnoredTarget ? 0.0F : p * static_cast<float>(*scale);
  }
};

__global__ void __launch_bounds__(kThreads)
    sum_kernel(const float* row_loss, double* loss, bool accumulate, int64_t rows) {
  double* scratch = dynamic_shared<double>();
  double sum = 0;
  for (int64_t r = threadIdx.x; r < rows; r += kThreads) sum += static_cast<double>(row_loss[r]);
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) *loss = accumulate ? *loss + sum : sum;
}

// One block for all rows, a warp a row: evaluation alone asks, and of small vocabularies.
__global__ void __launch_bounds__(kThreads)
    correct_kernel(const float* logits, const int32_t* targets, double* correct, bool accumulate,
                   int64_t rows, int64_t vocabulary) {
  double* scratch = dynamic_shared<double>();
  const int lane = static_cast<int>(threadIdx.x % 32);
  double count = 0;
  for (int64_t r = threadIdx.x / 32; r < rows; r += kThreads / 32) {
    const float* row = logits + r * vocabulary;
    float best = kLowest;
    int64_t at = vocabulary;
    for (int64_t i = lane; i < vocabulary; i += 32) {
      if (row[i] > best || at == vocabulary) {
        best = row[i];
        at = i;
      }
    }
    for (int step = 16; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(kAllLanes, best, step);
      const int64_t other_at = __shfl_xor_sync(kAllLanes, at, step);
      if (other_at < vocabulary && (other > best || (other == best && other_at < at))) {
        best = other;
        at = other_at;
      }
    }
    if (lane == 0 && at == targets[r]) count += 1;
  }
  count = block_sum(count, scratch);
  if (threadIdx.x == 0) *correct = accumulate ? *correct + count : count;
}

constexpr int64_t kScratchBytes = kThreads / 32 * static_cast<int64_t>(sizeof(double));

}  // namespace

void cross_entropy_rows(const float* logits, const int32_t* targets, float* row_loss, float* lse,
                        int64_t rows, int64_t vocabulary, const Queue& queue) {
  launch(queue, "cross_entropy", rows_kernel, static_cast<unsigned>(rows), kThreads, kScratchBytes,
         logits, targets, row_loss, lse, vocabulary);
}

void cross_entropy_backward(const float* logits, const int32_t* targets, const float* lse,
                            float* dlogits, const double* scale, int64_t rows, int64_t vocabulary,
                            const Queue& queue) {
  for_each_element(queue, "cross_entropy.backward", rows * vocabulary,
                   Backward{logits, targets, lse, dlogits, scale, vocabulary});
}

void sum_row_loss(const float* row_loss, double* loss, bool accumulate, int64_t rows,
                  const Queue& queue) {
  launch(queue, "sum_row_loss", sum_kernel, 1U, kThreads, kScratchBytes, row_loss, loss, accumulate,
         rows);
}

void count_correct(const float* logits, const int32_t* targets, double* correct, bool accumulate,
                   int64_t rows, int64_t vocabulary, const Queue& queue) {
  launch(queue, "count_correct", correct_kernel, 1U, kThreads, kScratchBytes, logits, targets,
         correct, accumulate, rows, vocabulary);
}

}  // namespace plimsoll::cuda
