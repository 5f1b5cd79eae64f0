// What rotary position embedding is told, on every backend; kernels/cpu/rope.h says what it does.
#pragma once

#include <cstdint>

namespace plimsoll {

struct RopeOptions {
  int64_t heads = 1, kv_heads = 1, head_dim = 2;
  double theta = 10000;
  // Llama 3.1's stretched frequencies; a factor of 1 leaves them alone.
  double scaling_factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;
  double original_context = 8192;
};

}  // namespace plimsoll
