// Matrix products by cuBLAS.
#pragma once

#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::cuda {

// A row-major matrix inside a larger one.
struct MatrixView {
  const float* data;
  int64_t stride;           // elements from row to row
  bool transposed = false;  // use it as its transpose
};

// c[M,N] = alpha * a[M,K] b[K,N] + (accumulate ? c : 0), with the extents of a and b after their
// transposition. Throws Error (exit 4) when cuBLAS refuses.
void matmul(int64_t m, int64_t n, int64_t k, float alpha, const MatrixView& a, const MatrixView& b,
            bool accumulate, float* c, int64_t c_stride, const Queue& queue);

}  // namespace plimsoll::cuda
