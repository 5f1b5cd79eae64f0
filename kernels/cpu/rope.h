// Rotary position embedding, "rotate half" form: elements d and d + D/2 of a head are a pair,
// turned by position * theta^(-2d/D).
#pragma once

#include "kernels/cpu/thread_pool.h"
#include "kernels/rope_options.h"

#include <cstdint>

namespace plimsoll {

inline constexpr int64_t kMaxRopeHeadDim = 1024;

// x, y [B,T,(H+2G)*D] (y may be x): turns the H query and G key heads and copies the values. With
// `backward`, turns by the negative angle, which is the gradient.
template <class T>
void rope(const T* x, T* y, const RopeOptions& options, bool backward, int64_t batch,
          int64_t length, ThreadPool& pool);

}  // namespace plimsoll
