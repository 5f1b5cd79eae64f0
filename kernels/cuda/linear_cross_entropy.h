// The last linear layer and cross-entropy together, chunk by chunk of rows.
#pragma once

#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::cuda {

struct LinearCrossEntropyShape {
  int64_t rows = 1, channels = 1, vocabulary = 1, chunks = 1;
  [[nodiscard]] int64_t chunk_rows() const { return (rows + chunks - 1) / chunks; }
};

// x [rows, channels], w [vocabulary, channels]; logits [chunk_rows, vocabulary] is workspace.
void linear_cross_entropy_forward(const float* x, const float* w, const int32_t* targets,
                                  double* loss, bool accumulate, float* row_loss, float* lse,
                                  float* logits, const LinearCrossEntropyShape& shape,
                                  const Queue& queue);
void linear_cross_entropy_backward(const float* x, const float* w, const int32_t* targets,
                                   const float* lse, const double* scale, float* dx, float* dw,
                                   bool accumulate_dw, float* logits,
                                   const LinearCrossEntropyShape& shape, const Queue& queue);

}  // namespace plimsoll::cuda
