// The words of CUDA C++ that kernels use, for the host's compiler. Included by
// kernels/cuda/device.h alone, which has the same words from NVIDIA's headers when nvcc compiles.
#pragma once

#include "kernels/cuda/queue.h"
#include "kernels/emulation/block.h"
#include "kernels/emulation/runtime.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <tuple>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define PLIMSOLL_UNROLL
#define threadIdx (::plimsoll::emulation::place().thread)
#define blockIdx (::plimsoll::emulation::place().block)
#define blockDim (::plimsoll::emulation::place().block_dim)
#define gridDim (::plimsoll::emulation::place().grid_dim)

namespace plimsoll::cuda {

using namespace plimsoll::emulation;  // what CUDA has in the global namespace
using dim3 = emulation::Dim3;

struct alignas(16) float4 {
  float x, y, z, w;
};

inline void __syncthreads(const std::source_location& at = std::source_location::current()) {
  sync_threads(at);
}

// Every warp intrinsic takes part with all 32 lanes; the emulator refuses anything else.
template <class T>
inline T exchange_as(T value, int source, const std::source_location& at) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(bits, source, at);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline void __syncwarp(unsigned = ~0U,
                       const std::source_location& at = std::source_location::current()) {
  (void)exchange(0, 0, at);
}
template <class T>
inline T __shfl_xor_sync(unsigned, T value, int mask,
                         const std::source_location& at = std::source_location::current()) {
  return exchange_as(value, lane() ^ mask, at);
}
template <class T>
inline T __shfl_sync(unsigned, T value, int source,
                     const std::source_location& at = std::source_location::current()) {
  return exchange_as(value, source, at);
}
inline unsigned __ballot_sync(unsigned, int predicate,
                              const std::source_location& at = std::source_location::current()) {
  return ballot(predicate != 0, at);
}

template <class T>
inline T atomicAdd(T* address, T value) {
  return atomic_add(address, value);
}

// The block's dynamic shared memory.
template <class T>
inline T* dynamic_shared() {
  return static_cast<T*>(shared_memory());
}

// Starts kernel(arguments…) on the queue's stream. `shared_bytes` is dynamic shared memory.
template <class... P, class... A>
void launch(const Queue& queue, const char* name, void (*kernel)(P...), dim3 grid, dim3 block,
            int64_t shared_bytes, A&&... arguments) {
  queue.count(name);
  std::tuple<P...> values(static_cast<P>(arguments)...);
  const cudaError_t error = launch_grid({name,
                                         grid,
                                         block,
                                         shared_bytes,
                                         {queue.operands.begin(), queue.operands.end()},
                                         [kernel, values] { std::apply(kernel, values); }},
                                        static_cast<cudaStream_t>(queue.stream));
  if (error != cudaSuccess) launch_failed(name, cudaGetErrorString(error));
}

}  // namespace plimsoll::cuda
