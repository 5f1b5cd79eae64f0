// Shapes: row-major extents, outermost first.
#pragma once

#include "base/checked.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll {

using Shape = std::vector<int64_t>;

// Product of the extents (1 for a scalar's empty shape); throws Error on overflow.
[[nodiscard]] inline int64_t num_elements(const Shape& shape) {
  int64_t product = 1;
  for (const int64_t extent : shape) product = checked_mul(product, extent);
  return product;
}

// "[4, 1024, 768]"
[[nodiscard]] inline std::string shape_text(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace plimsoll
