// Launches that many kernels share: over elements, over rows by warps, down columns.
#pragma once

#include "kernels/cuda/device.h"

#include <cstdint>

namespace plimsoll::cuda {

inline constexpr int kThreads = 256;  // of a block, where nothing asks for another number
inline constexpr unsigned kAllLanes = ~0U;
inline constexpr int kWarpsOfRows = 4;  // warps of a block that works row by row

[[nodiscard]] inline unsigned blocks_of(int64_t n, int64_t each) {
  return static_cast<unsigned>((n + each - 1) / each);
}

// All lanes get the sum; its tree is fixed, so are its bits.
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

__device__ __forceinline__ float warp_max(float value) {
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, value, step);
    value = other > value ? other : value;
  }
  return value;
}

// All threads of a block of kThreads get the sum; `scratch` holds kThreads / 32 values and may be
// used again behind the call.
template <class T>
__device__ __forceinline__ T block_sum(T value, T* scratch) {
  const int t = static_cast<int>(threadIdx.x);
  value = warp_sum(value);
  if (t % 32 == 0) scratch[t / 32] = value;
  __syncthreads();
  T total = scratch[0];
  for (int w = 1; w < kThreads / 32; ++w) total += scratch[w];
  __syncthreads();
  return total;
}

__device__ __forceinline__ float block_max(float value, float* scratch) {
  const int t = static_cast<int>(threadIdx.x);
  value = warp_max(value);
  if (t % 32 == 0) scratch[t / 32] = value;
  __syncthreads();
  float largest = scratch[0];
  for (int w = 1; w < kThreads / 32; ++w) largest = scratch[w] > largest ? scratch[w] : largest;
  __syncthreads();
  return largest;
}

__device__ __forceinline__ void store(float* out, float value, bool accumulate) {
  *out = accumulate ? *out + value : value;
}

template <class F>
__global__ void element_kernel(F f, int64_t n) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
    f(i);
}

// f(i) for each i < n; f is a struct with a __device__ operator().
template <class F>
void for_each_element(const Queue& queue, const char* name, int64_t n, const F& f) {
  if (n == 0) return;
  const unsigned blocks = blocks_of(n, kThreads);
  launch(queue, name, element_kernel<F>, blocks < 65535 ? blocks : 65535, kThreads, 0, f, n);
}

template <class F>
__global__ void row_kernel(F f, int64_t rows) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarpsOfRows + threadIdx.x / 32;
  if (row < rows) f(row, static_cast<int>(threadIdx.x % 32));
}

// f(row, lane) by the 32 lanes of a warp for each row.
template <class F>
void for_each_row(const Queue& queue, const char* name, int64_t rows, const F& f) {
  launch(queue, name, row_kernel<F>, blocks_of(rows, kWarpsOfRows), kWarpsOfRows * 32, 0, f, rows);
}

inline constexpr int kColumnsOfBlock = 32;
inline constexpr int kRowsOfBlock = 8;

template <class F>
__global__ void column_kernel(F value, int64_t rows, int64_t columns, float* out, bool accumulate) {
  float* part = dynamic_shared<float>();  // [kRowsOfBlock, kColumnsOfBlock]
  const int x = static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(threadIdx.y);
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumnsOfBlock + x;
  float sum = 0;
  if (column < columns) {
    for (int64_t r = y; r < rows; r += kRowsOfBlock) sum += value(r, column);
  }
  part[y * kColumnsOfBlock + x] = sum;
  __syncthreads();
  if (y != 0 || column >= columns) return;
  for (int other = 1; other < kRowsOfBlock; ++other) sum += part[other * kColumnsOfBlock + x];
  store(out + column, sum, accumulate);
}

// out[c] (+)= sum over rows r of value(r, c), in an order that the extents fix.
template <class F>
void sum_columns(const Queue& queue, const char* name, int64_t rows, int64_t columns, float* out,
                 bool accumulate, const F& value) {
  launch(queue, name, column_kernel<F>, blocks_of(columns, kColumnsOfBlock),
         dim3(kColumnsOfBlock, kRowsOfBlock),
         static_cast<int64_t>(sizeof(float)) * kColumnsOfBlock * kRowsOfBlock, value, rows, columns,
         out, accumulate);
}

// The value that sum_columns takes for the plain sums of a matrix.
struct MatrixValue {
  const float* matrix;
  int64_t columns;
  __device__ float operator()(int64_t r, int64_t c) const { return matrix[r * columns + c]; }
};

}  // namespace plimsoll::cuda
