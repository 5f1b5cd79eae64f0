// Walks over what a buffer holds of a logical tensor, part by part and row by row.
#pragma once

#include "base/checked.h"
#include "base/shape.h"
#include "program/program.h"

#include <algorithm>
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

// Elements [first, first + count) of a part's box, row-major, from element `offset` of the buffer.
struct HeldRange {
  int64_t first = 0, count = 0, offset = 0;
};

// Calls visit(part, HeldRange) for what the buffer holds of each part: all of it, or what lies in
// the shard of the rank's place in its data-parallel group.
template <typename Visit>
void for_each_held_part(const LogicalTensor& tensor, int dp_place, const Visit& visit) {
  int64_t total = tensor.padding;
  for (const LogicalPart& part : tensor.parts) total += num_elements(part.box_extent);
  const int64_t shard = ceil_div(total, tensor.shards);
  const int64_t begin = tensor.shards == 1 ? 0 : std::min(total, shard * dp_place);
  const int64_t end = std::min(total, begin + shard);
  int64_t at = 0;
  for (const LogicalPart& part : tensor.parts) {
    const int64_t size = num_elements(part.box_extent);
    const int64_t from = std::max(begin, at);
    const int64_t to = std::min(end, at + size);
    if (from < to) visit(part, HeldRange{from - at, to - from, from - begin});
    at += size;
  }
}

// Calls visit(global index of the first element, offset from the range's start, elements) for each
// run of the range that is contiguous in the whole tensor.
template <typename Visit>
void for_each_run(const LogicalPart& part, int64_t first, int64_t count, const Visit& visit) {
  const int64_t length = box_row_length(part);
  for (int64_t at = first; at < first + count;) {
    const int64_t row = at / length;
    const int64_t run = std::min((row + 1) * length, first + count) - at;
    visit(global_index_of_row(part, row) + at - row * length, at - first, run);
    at += run;
  }
}

}  // namespace plimsoll
