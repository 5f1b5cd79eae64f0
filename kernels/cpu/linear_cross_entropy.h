// The output projection and its cross-entropy in one, a chunk of rows at a time, so that all logits
// never exist at once.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

struct LinearCrossEntropyShape {
  int64_t rows = 1, channels = 1, vocabulary = 1;  // R, C, V
  int64_t chunks = 1;
  [[nodiscard]] int64_t chunk_rows() const { return (rows + chunks - 1) / chunks; }
};

// x [R,C], w [V,C], targets [R]; loss [1] (+)=, row_loss [R], lse [R], logits [chunk_rows,V]
// (workspace).
template <class T>
void linear_cross_entropy_forward(const T* x, const T* w, const int32_t* targets, double* loss,
                                  bool accumulate, T* row_loss, T* lse, T* logits,
                                  const LinearCrossEntropyShape& shape, ThreadPool& pool);

// dx [R,C], dw [V,C] (+)=, logits [chunk_rows,V] (workspace).
template <class T>
void linear_cross_entropy_backward(const T* x, const T* w, const int32_t* targets, const T* lse,
                                   double scale, T* dx, T* dw, bool accumulate_dw, T* logits,
                                   const LinearCrossEntropyShape& shape, ThreadPool& pool);

}  // namespace plimsoll
