// Cross-entropy of logits against targets, and what is counted of them.
#pragma once

#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::cuda {

inline constexpr int32_t kIgnoredTarget = -100;

// logits [rows, vocabulary], targets [rows]; row_loss, lse [rows].
void cross_entropy_rows(const float* logits, const int32_t* targets, float* row_loss, float* lse,
                        int64_t rows, int64_t vocabulary, const Queue& queue);
// dlogits [rows, vocabulary] (may be logits) = (softmax - one-hot) * scale; scale is on the device.
void cross_entropy_backward(const float* logits, const int32_t* targets, const float* lse,
                            float* dlogits, const double* scale, int64_t rows, int64_t vocabulary,
                            const Queue& queue);
// loss [1] (+)= the sum of row_loss, in double precision.
void sum_row_loss(const float* row_loss, double* loss, bool accumulate, int64_t rows,
                  const Queue& queue);
// correct [1] (+)= the number of rows whose first largest logit is the target.
void count_correct(const float* logits, const int32_t* targets, double* correct, bool accumulate,
                   int64_t rows, int64_t vocabulary, const Queue& queue);

}  // namespace plimsoll::cuda
