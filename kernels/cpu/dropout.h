// Dropout whose mask is a pure function of (seed, step, key, global element index), so that it is
// regenerated in the backward pass and no plan changes it.
#pragma once

#include "base/rng.h"
#include "kernels/cpu/thread_pool.h"

#include <cmath>
#include <cstdint>

namespace plimsoll {

// The seed of one step's draws.
[[nodiscard]] constexpr uint64_t dropout_seed(uint64_t seed, uint64_t step) {
  return seed ^ splitmix64(step + 1);
}

// Decides which elements stay: those with rng_uniform(seed, key, index) >= probability.
class DropoutMask {
 public:
  DropoutMask() = default;  // keeps all
  DropoutMask(double probability, uint64_t seed, uint64_t key)
      : stream_(splitmix64(splitmix64(seed + 1) ^ key)),
        threshold_(static_cast<uint64_t>(std::ceil(probability * 0x1p24))),
        scale_(1 / (1 - probability)) {}

  [[nodiscard]] bool active() const { return threshold_ > 0; }
  // The inner step of rng_bits, with what does not depend on the index done once.
  [[nodiscard]] bool keeps(uint64_t index) const {
    return (splitmix64(stream_ + index + 1) >> 40) >= threshold_;
  }
  // What a kept element is multiplied by.
  [[nodiscard]] double scale() const { return scale_; }

 private:
  uint64_t stream_ = 0;
  uint64_t threshold_ = 0;  // of 2^24
  double scale_ = 1;
};

// x, y [n] (y may be x): y[i] = keeps(first_index + i) ? x[i] * scale : 0. The backward pass is the
// same function of dy.
template <class T>
void dropout(const T* x, T* y, const DropoutMask& mask, int64_t first_index, int64_t n,
             ThreadPool& pool);

// The same of rows [rows, length] that lie `stride` elements apart in the whole: element i of row r
// has index first_index + r * stride + i.
template <class T>
void dropout_rows(const T* x, T* y, const DropoutMask& mask, int64_t first_index, int64_t rows,
                  int64_t length, int64_t stride, ThreadPool& pool);

}  // namespace plimsoll
