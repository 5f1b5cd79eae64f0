// Kernels that are right, and the same with one fault each; what the emulator must see.
#pragma once

#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::testing {

enum class Planted : uint8_t {
  kNothing,
  kPastTheEnd,  // one element behind the memory
  kBeforeTheStart,
  kMisaligned,  // four bytes at an address of two
  kWritesInput,
  kSharedPastTheEnd,
  kUninitialised,  // reads shared memory before anything is there
  kNoBarrier,      // between writing and reading a neighbour's value
  kNoWarpBarrier,
  kBarrierInBranch,  // half of the block never arrives
  kTwoBarriers,      // the halves wait at different barriers
  kShuffleInBranch,
  kTwoBlocks,    // write the same element
  kUnevenBlock,  // 48 threads
  kTooMuchShared,
};

// y [n] = for each block of 64 elements of x the sum, by a tree in shared memory, times two.
void sum_blocks(const float* x, float* y, int64_t n, Planted fault, const cuda::Queue& queue);
// total [1] += the number of x's that are positive, by atomic additions of all blocks.
void count_positive(const float* x, int32_t* total, int64_t n, const cuda::Queue& queue);
// y[i] = x[i] + 1.
void add_one(const float* x, float* y, int64_t n, const cuda::Queue& queue);

}  // namespace plimsoll::testing
