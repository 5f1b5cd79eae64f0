// Walks over the box of a logical tensor that a buffer holds, row by row.
#pragma once

#include "base/shape.h"
#include "program/program.h"

#include <cstdint>

namespace plimsoll {

// Elements of a box's innermost dimension: what is contiguous both here and in the whole tensor.
[[nodiscard]] inline int64_t box_row_length(const LogicalPart& part) {
  return part.box_extent.empty() ? 1 : part.box_extent.back();
}

[[nodiscard]] inline int64_t num_box_rows(const LogicalPart& part) {
  return num_elements(part.box_extent) / box_row_length(part);
}

// Index of the first element of the box's row `row` in the whole tensor, row-major. The box lies
// inside the tensor (a rule of program/verify.h).
[[nodiscard]] inline int64_t global_index_of_row(const LogicalPart& part, int64_t row) {
  if (part.box_extent.empty()) return 0;
  int64_t index = part.box_start.back();
  int64_t stride = part.global_shape.back();
  for (size_t d = part.box_extent.size() - 1; d-- > 0;) {
    index += (part.box_start[d] + row % part.box_extent[d]) * stride;
    row /= part.box_extent[d];
    stride *= part.global_shape[d];
  }
  return index;
}

}  // namespace plimsoll
