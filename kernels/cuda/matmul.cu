#include "kernels/cuda/blas.h"
#include "kernels/cuda/matmul.h"

namespace plimsoll::cuda {

// cuBLAS is column-major: a row-major c is its c', so the factors change places.
void matmul(int64_t m, int64_t n, int64_t k, float alpha, const MatrixView& a, const MatrixView& b,
            bool accumulate, float* c, int64_t c_stride, const Queue& queue) {
  queue.count("cublasSgemm");
  const float beta = accumulate ? 1.0F : 0.0F;
  const cublasStatus_t status = cublasSgemm_v2(
      static_cast<cublasHandle_t>(queue.blas), b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
      a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, static_cast<int>(n), static_cast<int>(m),
      static_cast<int>(k), &alpha, b.data, static_cast<int>(b.stride), a.data,
      static_cast<int>(a.stride), &beta, c, static_cast<int>(c_stride));
  if (status != CUBLAS_STATUS_SUCCESS) launch_failed("cublasSgemm", cublasGetStatusString(status));
}

}  // namespace plimsoll::cuda
