// Dropout's draws on the device, bit for bit those of kernels/cpu/dropout.h. Seed and step are read
// from device memory, so that a launch is valid for every step.
#pragma once

#include "base/rng.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/dropout.h"

namespace plimsoll::cuda {

class KeepMask {
 public:
  __device__ explicit KeepMask(const DropoutDraw& draw)
      : threshold_(draw.threshold), scale_(draw.scale) {
    if (threshold_ == 0) return;
    const uint64_t seed =
        static_cast<uint64_t>(*draw.seed) ^ splitmix64(static_cast<uint64_t>(*draw.step) + 1);
    stream_ = splitmix64(splitmix64(seed + 1) ^ draw.key);
  }
  __device__ bool active() const { return threshold_ > 0; }
  // x after dropout, where `index` is the element's global index.
  __device__ float apply(float x, uint64_t index) const {
    return threshold_ == 0 || (splitmix64(stream_ + index + 1) >> 40) >= threshold_ ? x * scale_
                                                                                    : 0.0F;
  }

 private:
  uint64_t stream_ = 0;
  uint64_t threshold_;
  float scale_;
};

}  // namespace plimsoll::cuda
