#include "kernels/emulation/blas.h"

#include "kernels/cpu/matmul.h"
#include "kernels/emulation/address_space.h"

namespace plimsoll::emulation {

struct BlasHandle {
  cudaStream_t stream = nullptr;
};

namespace {

// Bytes from the first element of a column-major matrix to behind its last.
int64_t extent_bytes(int64_t rows, int64_t columns, int64_t ld) {
  return ((columns - 1) * ld + rows) * static_cast<int64_t>(sizeof(float));
}

bool lies_in_memory(const cuda::OperandRange& range) {
  const auto begin = reinterpret_cast<uintptr_t>(range.begin);
  const auto allocation = AddressSpace::instance().find(begin);
  return allocation != nullptr && begin + static_cast<uintptr_t>(range.bytes) <= allocation->end();
}

}  // namespace

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "no error";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an extent, a leading dimension or an address that does not suit";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return cudaGetErrorString(cudaErrorLaunchFailure);
  }
  return "?";
}

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new BlasHandle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                              int m, int n, int k, const float* alpha, const float* a, int lda,
                              const float* b, int ldb, const float* beta, float* c, int ldc) {
  const bool turns_a = op_a == CUBLAS_OP_T;
  const bool turns_b = op_b == CUBLAS_OP_T;
  const int rows_a = turns_a ? k : m;
  const int rows_b = turns_b ? n : k;
  if (m < 1 || n < 1 || k < 1 || lda < rows_a || ldb < rows_b || ldc < m ||
      (*beta != 0 && *beta != 1)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const cuda::OperandRange operands[] = {{a, extent_bytes(rows_a, turns_a ? m : k, lda), false},
                                         {b, extent_bytes(rows_b, turns_b ? k : n, ldb), false},
                                         {c, extent_bytes(m, n, ldc), true}};
  for (const cuda::OperandRange& range : operands) {
    if (!lies_in_memory(range)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  // A column-major matrix is the transpose of a row-major one: c' = op(b)' op(a)'.
  const auto product = [=, factor = *alpha, adds = *beta == 1] {
    plimsoll::gemm<float>(n, m, k, factor, {b, ldb, turns_b}, {a, lda, turns_a}, adds, c, ldc);
  };
  return enqueue("cublasSgemm", operands, product, handle->stream) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace plimsoll::emulation
