// Rotary position embedding, as kernels/cpu/rope.h defines it.
#pragma once

#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::cuda {

struct RopeOptions {
  int64_t heads = 1, kv_heads = 1, head_dim = 2;
  double theta = 10000;
  double scaling_factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;
  double original_context = 8192;
};

// x, y [B,T,(H+2G)*D] (y may be x). With `backward`, turns by the negative angle.
void rope(const float* x, float* y, const RopeOptions& options, bool backward, int64_t batch,
          int64_t length, const Queue& queue);

}  // namespace plimsoll::cuda
