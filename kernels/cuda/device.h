// What a kernel's source includes: CUDA C++ by nvcc, or its emulation by the host's compiler.
// Kernels are started by `launch`, never by <<<>>>; shared memory is dynamic and comes from
// `dynamic_shared`. Blocks are whole warps, and all lanes take part in a warp's exchanges.
#pragma once

#if defined(__CUDACC__)

#include "kernels/cuda/queue.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

// Before a loop of a fixed number of rounds over an array that is to stay in registers.
#define PLIMSOLL_UNROLL _Pragma("unroll")

namespace plimsoll::cuda {

template <class T>
__device__ inline T* dynamic_shared() {
  extern __shared__ float4 block_memory[];
  return reinterpret_cast<T*>(block_memory);
}

template <class... P, class... A>
void launch(const Queue& queue, const char* name, void (*kernel)(P...), dim3 grid, dim3 block,
            int64_t shared_bytes, A&&... arguments) {
  queue.count(name);
  constexpr int64_t kDefaultSharedBytes = 48 << 10;  // more has to be asked for
  cudaError_t error = cudaSuccess;
  if (shared_bytes > kDefaultSharedBytes) {
    error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared_bytes));
  }
  if (error == cudaSuccess) {
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
    config.stream = static_cast<cudaStream_t>(queue.stream);
    error = cudaLaunchKernelEx(&config, kernel, static_cast<P>(arguments)...);
  }
  if (error != cudaSuccess) launch_failed(name, cudaGetErrorString(error));
}

}  // namespace plimsoll::cuda

#else
#include "kernels/emulation/device.h"
#endif
