// Integer arithmetic on sizes that came from a user: an overflow is an Error, never a wrapped
// value.
#pragma once

#include "base/error.h"

#include <cstdint>

namespace plimsoll {

[[nodiscard]] inline int64_t checked_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    throw bad_input(fmt::format("size overflow: {} + {} exceeds 2^63", a, b), "use smaller sizes");
  }
  return sum;
}

[[nodiscard]] inline int64_t checked_mul(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw bad_input(fmt::format("size overflow: {} * {} exceeds 2^63", a, b), "use smaller sizes");
  }
  return product;
}

// Smallest multiple of `alignment` (a positive number) that is at least `value`.
[[nodiscard]] inline int64_t align_up(int64_t value, int64_t alignment) {
  return checked_mul(checked_add(value, alignment - 1) / alignment, alignment);
}

[[nodiscard]] inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace plimsoll
