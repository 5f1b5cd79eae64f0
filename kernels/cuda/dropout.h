// Dropout whose mask is a pure function of (seed, step, key, global index).
#pragma once

#include "kernels/cuda/queue.h"

#include <cmath>
#include <cstdint>

namespace plimsoll::cuda {

// Where the draws of an instruction come from.
struct DropoutDraw {
  const double* seed = nullptr;  // on the device
  const double* step = nullptr;  // on the device
  uint64_t key = 0;
  uint64_t threshold = 0;  // of 2^24; 0 keeps all
  float scale = 1;         // of a kept element
};

// Of a probability, and the addresses of seed and step on the device.
[[nodiscard]] inline DropoutDraw dropout_draw(double probability, const double* seed,
                                              const double* step, uint64_t key) {
  if (probability == 0) return {};
  return {seed, step, key, static_cast<uint64_t>(std::ceil(probability * 0x1p24)),
          static_cast<float>(1 / (1 - probability))};
}

// x, y [n] (y may be x): element i is dropped as element first_index + i of the whole.
void dropout(const float* x, float* y, const DropoutDraw& draw, int64_t first_index, int64_t n,
             const char* name, const Queue& queue);

}  // namespace plimsoll::cuda
