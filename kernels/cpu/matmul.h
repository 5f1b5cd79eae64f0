// Matrix products as a fixed grid of output tiles.
//
// Each tile is one single-threaded BLAS call and the grid is a function of the shape alone, so the
// bits of the result depend on shapes and values, never on the number of threads. (OpenBLAS's own
// threading splits work by thread count, which changes results.)
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

// A row-major matrix inside a larger one: row r starts at data + r * stride.
template <class T>
struct MatrixView {
  T* data;
  int64_t stride;
  bool transposed = false;  // use it as its transpose
};

// One BLAS call on the calling thread: c[M,N] = alpha * a[M,K] * b[K,N] + (accumulate ? c : 0),
// with the extents of a and b after their transposition.
template <class T>
void gemm(int64_t m, int64_t n, int64_t k, T alpha, MatrixView<const T> a, MatrixView<const T> b,
          bool accumulate, T* c, int64_t c_stride);

// The same product over the pool's threads. With `bias` [N], c = a b + bias in every row (which
// excludes accumulate).
template <class T>
void matmul(int64_t m, int64_t n, int64_t k, MatrixView<const T> a, MatrixView<const T> b,
            bool accumulate, T* c, int64_t c_stride, ThreadPool& pool, const T* bias = nullptr);

// The grid of `matmul`: extents of a tile for an output [M,N] and a sum over K.
struct TileGrid {
  int64_t tile_m, tile_n;  // rows and columns of a full tile
  int64_t num_m, num_n;    // tiles along each dimension
};
[[nodiscard]] TileGrid tile_grid(int64_t m, int64_t n, int64_t k);

}  // namespace plimsoll
