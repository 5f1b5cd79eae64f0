// Half-open intervals [lower, upper) of integers.
#pragma once

#include <cstdint>

namespace plimsoll {

struct Interval {
  int64_t lower = 0;
  int64_t upper = 0;

  [[nodiscard]] bool empty() const { return upper <= lower; }
  [[nodiscard]] int64_t length() const { return empty() ? 0 : upper - lower; }
  [[nodiscard]] bool overlaps(const Interval& other) const {
    return lower < other.upper && other.lower < upper;
  }
  friend bool operator==(const Interval&, const Interval&) = default;
};

}  // namespace plimsoll
