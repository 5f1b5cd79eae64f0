// Stand-ins for the part of cuBLAS that the backend uses: products on a stream, in the order of the
// arguments' documentation (column-major), computed by the CPU kernels' BLAS.
#pragma once

#include "kernels/emulation/runtime.h"

#include <cstdint>

namespace plimsoll::emulation {

enum cublasStatus_t : int {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
};
enum cublasOperation_t : int { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };

struct BlasHandle;
using cublasHandle_t = BlasHandle*;

const char* cublasGetStatusString(cublasStatus_t status);
cublasStatus_t cublasCreate_v2(cublasHandle_t* handle);
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle);
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream);
// c[m,n] = alpha * op(a)[m,k] op(b)[k,n] + beta * c, all column-major; beta is 0 or 1.
cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                              int m, int n, int k, const float* alpha, const float* a, int lda,
                              const float* b, int ldb, const float* beta, float* c, int ldc);

}  // namespace plimsoll::emulation
