#include "kernels/cuda/device.h"
#include "tests/emulation/kernels_with_faults.h"

namespace plimsoll::testing {

using namespace plimsoll::cuda;

namespace {

constexpr int kThreads = 64;
constexpr unsigned kAll = ~0U;

struct Tree {
  float value[kThreads];
  float of_warp[kThreads / 32];
};

__global__ void sum_blocks_kernel(const float* x, float* y, int64_t n, Planted fault) {
  Tree& s = *dynamic_shared<Tree>();
  const int t = static_cast<int>(threadIdx.x);
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + t;
  if (fault == Planted::kPastTheEnd && t == 5) y[n] = 1;
  if (fault == Planted::kBeforeTheStart && t == 5) y[i - i - 1] = 1;
  if (fault == Planted::kMisaligned && t == 5) {
    y[i] = *reinterpret_cast<const float*>(reinterpret_cast<const char*>(x + i) + 2);
  }
  if (fault == Planted::kWritesInput && t == 5) const_cast<float*>(x)[i] = 1;
  if (fault == Planted::kSharedPastTheEnd && t == 5) dynamic_shared<float>()[n] = 1;
  if (fault == Planted::kTwoBlocks && t == 5) y[5] = 1;
  if (fault == Planted::kShuffleInBranch && t < 16) y[i] = __shfl_xor_sync(kAll, 1.0F, 1);
  if (fault != Planted::kUninitialised || t != 7) s.value[t] = i < n ? x[i] : 0.0F;
  if (fault == Planted::kTwoBarriers && t < 32) {
    __syncthreads();
  } else if (fault != Planted::kNoBarrier) {
    __syncthreads();
  }
  const float pair = s.value[t] + s.value[t ^ 32];
  __syncthreads();
  s.value[t] = pair;
  if (fault != Planted::kNoWarpBarrier) __syncwarp();
  const float four = pair + s.value[t ^ 1];
  float sum = four + __shfl_xor_sync(kAll, four, 2);
  for (int step = 4; step < 32; step *= 2) sum += __shfl_xor_sync(kAll, sum, step);
  if (t % 32 == 0) s.of_warp[t / 32] = sum;
  __syncthreads();
  if (i < n) y[i] = s.of_warp[0] + s.of_warp[1];
  if (fault == Planted::kBarrierInBranch && t < 32) __syncthreads();
}

__global__ void count_positive_kernel(const float* x, int32_t* total, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n && x[i] > 0) atomicAdd(total, 1);
}

__global__ void add_one_kernel(const float* x, float* y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + 1;
}

unsigned blocks(int64_t n) { return static_cast<unsigned>((n + kThreads - 1) / kThreads); }

}  // namespace

void sum_blocks(const float* x, float* y, int64_t n, Planted fault, const Queue& queue) {
  const unsigned threads = fault == Planted::kUnevenBlock ? 48 : kThreads;
  const int64_t shared =
      fault == Planted::kTooMuchShared ? int64_t{1} << 20 : static_cast<int64_t>(sizeof(Tree));
  launch(queue, "sum_blocks", sum_blocks_kernel, blocks(n), threads, shared, x, y, n, fault);
}

void count_positive(const float* x, int32_t* total, int64_t n, const Queue& queue) {
  launch(queue, "count_positive", count_positive_kernel, blocks(n), kThreads, 0, x, total, n);
}

void add_one(const float* x, float* y, int64_t n, const Queue& queue) {
  launch(queue, "add_one", add_one_kernel, blocks(n), kThreads, 0, x, y, n);
}

}  // namespace plimsoll::testing
