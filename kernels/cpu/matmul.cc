#include "kernels/cpu/matmul.h"

#include <cblas.h>

#include <algorithm>

namespace plimsoll {
namespace {

// A tile this large spends under 5% of its time on packing its operands at K of some hundred.
constexpr int64_t kMaxTileRows = 512;
constexpr int64_t kMaxTileColumns = 512;
constexpr int64_t kMinTile = 64;
// Tiles are made smaller until there are this many, as long as each is worth handing to a thread.
constexpr int64_t kWantedTiles = 8;
constexpr int64_t kMinTileMultiplications = 1 << 20;

int64_t num_pieces(int64_t extent, int64_t piece) { return (extent + piece - 1) / piece; }

// The size that cuts `extent` into `pieces` about equal parts, in multiples of the micro-kernels'.
int64_t even_piece(int64_t extent, int64_t pieces) {
  return (num_pieces(extent, pieces) + 15) / 16 * 16;
}

CBLAS_TRANSPOSE transposition(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }
blasint narrow(int64_t x) { return static_cast<blasint>(x); }

void call_blas(int64_t m, int64_t n, int64_t k, float alpha, MatrixView<const float> a,
               MatrixView<const float> b, float beta, float* c, int64_t c_stride) {
  cblas_sgemm(CblasRowMajor, transposition(a.transposed), transposition(b.transposed), narrow(m),
              narrow(n), narrow(k), alpha, a.data, narrow(a.stride), b.data, narrow(b.stride), beta,
              c, narrow(c_stride));
}

void call_blas(int64_t m, int64_t n, int64_t k, double alpha, MatrixView<const double> a,
               MatrixView<const double> b, double beta, double* c, int64_t c_stride) {
  cblas_dgemm(CblasRowMajor, transposition(a.transposed), transposition(b.transposed), narrow(m),
              narrow(n), narrow(k), alpha, a.data, narrow(a.stride), b.data, narrow(b.stride), beta,
              c, narrow(c_stride));
}

bool make_blas_single_threaded() {
  openblas_set_num_threads(1);
  return true;
}

}  // namespace

TileGrid tile_grid(int64_t m, int64_t n, int64_t k) {
  int64_t num_m = num_pieces(m, kMaxTileRows);
  int64_t num_n = num_pieces(n, kMaxTileColumns);
  while (num_m * num_n < kWantedTiles) {
    const int64_t rows = even_piece(m, num_m);
    const int64_t columns = even_piece(n, num_n);
    if (rows * columns * k < 2 * kMinTileMultiplications) break;
    if (std::max(rows, columns) < 2 * kMinTile) break;
    (rows >= columns ? num_m : num_n) *= 2;
  }
  const int64_t tile_m = even_piece(m, num_m);
  const int64_t tile_n = even_piece(n, num_n);
  return {tile_m, tile_n, num_pieces(m, tile_m), num_pieces(n, tile_n)};
}

template <class T>
void gemm(int64_t m, int64_t n, int64_t k, T alpha, MatrixView<const T> a, MatrixView<const T> b,
          bool accumulate, T* c, int64_t c_stride) {
  static const bool single_threaded = make_blas_single_threaded();
  (void)single_threaded;
  call_blas(m, n, k, alpha, a, b, accumulate ? T{1} : T{0}, c, c_stride);
}

template <class T>
void matmul(int64_t m, int64_t n, int64_t k, MatrixView<const T> a, MatrixView<const T> b,
            bool accumulate, T* c, int64_t c_stride, ThreadPool& pool, const T* bias) {
  if (m == 0 || n == 0) return;
  const TileGrid grid = tile_grid(m, n, k);
  pool.parallel_for(grid.num_m * grid.num_n, [&](int64_t tile) {
    const int64_t row = tile / grid.num_n * grid.tile_m;
    const int64_t column = tile % grid.num_n * grid.tile_n;
    const int64_t rows = std::min(grid.tile_m, m - row);
    const int64_t columns = std::min(grid.tile_n, n - column);
    T* c_tile = c + row * c_stride + column;
    if (bias != nullptr) {
      for (int64_t i = 0; i < rows; ++i) {
        std::copy_n(bias + column, columns, c_tile + i * c_stride);
      }
    }
    const MatrixView<const T> a_tile{a.data + (a.transposed ? row : row * a.stride), a.stride,
                                     a.transposed};
    const MatrixView<const T> b_tile{b.data + (b.transposed ? column * b.stride : column), b.stride,
                                     b.transposed};
    gemm<T>(rows, columns, k, T{1}, a_tile, b_tile, accumulate || bias != nullptr, c_tile,
            c_stride);
  });
}

#define PLIMSOLL_INSTANTIATE(T)                                                                 \
  template void gemm<T>(int64_t, int64_t, int64_t, T, MatrixView<const T>, MatrixView<const T>, \
                        bool, T*, int64_t);                                                     \
  template void matmul<T>(int64_t, int64_t, int64_t, MatrixView<const T>, MatrixView<const T>,  \
                          bool, T*, int64_t, ThreadPool&, const T*);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
