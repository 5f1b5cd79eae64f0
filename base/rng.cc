#include "base/rng.h"

#include "base/error.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace plimsoll {

double rng_normal(uint64_t seed, uint64_t purpose, uint64_t index) {
  const uint64_t bits = rng_bits(seed, purpose, index);
  const double u = (static_cast<double>(bits >> 32) + 0.5) * 0x1p-32;
  const double v = static_cast<double>(bits & 0xffffffffU) * 0x1p-32;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

uint64_t rng_permute(uint64_t seed, uint64_t purpose, uint64_t n, uint64_t index) {
  PLIMSOLL_CHECK(index < n, "index {} outside a permutation of {}", index, n);
  // Two halves of equal width whose product covers n; values outside [0, n) are walked through.
  const int half_bits = (std::bit_width(n - 1) + 1) / 2 + (n == 1 ? 1 : 0);
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t value = index;
  do {
    uint64_t left = value >> half_bits;
    uint64_t right = value & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t next = left ^ (rng_bits(seed, purpose ^ (round << 56), right) & mask);
      left = right;
      right = next;
    }
    value = (left << half_bits) | right;
  } while (value >= n);
  return value;
}

}  // namespace plimsoll
