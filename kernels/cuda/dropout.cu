#include "kernels/cuda/dropout.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/keep_mask.h"

namespace plimsoll::cuda {

namespace {

struct Apply {
  const float* x;
  float* y;
  DropoutDraw draw;
  uint64_t first;
  __device__ void operator()(int64_t i) const {
    y[i] = KeepMask(draw).apply(x[i], first + static_cast<uint64_t>(i));
  }
};

}  // namespace

void dropout(const float* x, float* y, const DropoutDraw& draw, int64_t first_index, int64_t n,
             const char* name, const Queue& queue) {
  for_each_element(queue, name, n, Apply{x, y, draw, static_cast<uint64_t>(first_index)});
}

}  // namespace plimsoll::cuda
