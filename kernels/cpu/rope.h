// Rotary position embedding, "rotate half" form: elements d and d + D/2 of a head are a pair,
// turned by position * theta^(-2d/D).
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

inline constexpr int64_t kMaxRopeHeadDim = 1024;

struct RopeOptions {
  int64_t heads = 1, kv_heads = 1, head_dim = 2;
  double theta = 10000;
  // Llama 3.1's stretched frequencies; a factor of 1 leaves them alone.
  double scaling_factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;
  double original_context = 8192;
};

// x, y [B,T,(H+2G)*D] (y may be x): turns the H query and G key heads and copies the values. With
// `backward`, turns by the negative angle, which is the gradient.
template <class T>
void rope(const T* x, T* y, const RopeOptions& options, bool backward, int64_t batch,
          int64_t length, ThreadPool& pool);

}  // namespace plimsoll
