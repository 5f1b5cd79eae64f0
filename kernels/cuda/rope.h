// Rotary position embedding, as kernels/cpu/rope.h defines it.
#pragma once

#include "kernels/cuda/queue.h"
#include "kernels/rope_options.h"

#include <cstdint>

namespace plimsoll::cuda {

// x, y [B,T,(H+2G)*D] (y may be x). With `backward`, turns by the negative angle.
void rope(const float* x, float* y, const RopeOptions& options, bool backward, int64_t batch,
          int64_t length, const Queue& queue);

}  // namespace plimsoll::cuda
