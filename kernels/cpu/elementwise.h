// Loops over independent elements and rows, cut into pieces that depend on extents alone.
#pragma once

#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/vector_math.h"

#include <algorithm>
#include <cstdint>

namespace plimsoll {

inline constexpr int64_t kElementGrain = 16384;  // elements a task: some microseconds of work

// Rows a task when each row is `row_elements` long.
[[nodiscard]] inline int64_t row_grain(int64_t row_elements) {
  return std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, row_elements));
}

// body(i) for each i < n. The body touches element i alone (an output may be an input's buffer), so
// the loop is vectorised without looking whether pointers overlap.
template <class Body>
void for_each_element(int64_t n, ThreadPool& pool, const Body& body) {
  pool.parallel_ranges(n, kElementGrain, [&body](int64_t begin, int64_t end) {
    const Body local = body;
    PLIMSOLL_INDEPENDENT
    for (int64_t i = begin; i < end; ++i) local(i);
  });
}

// body(r) for each row.
template <class Body>
void for_each_row(int64_t rows, int64_t row_elements, ThreadPool& pool, const Body& body) {
  pool.parallel_ranges(rows, row_grain(row_elements), [&body](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) body(r);
  });
}

inline constexpr int64_t kColumnStrip = 64;  // columns that one task sums down
inline constexpr int64_t kRowBlock = 64;     // rows summed before they are added to the total

// out[c] (+)= sum over rows r of value(r, c): tasks own strips of columns and go down all rows, in
// blocks, so the order of addition is fixed and no scratch memory is needed.
template <class T, class Value>
void sum_columns(int64_t rows, int64_t columns, T* out, bool accumulate, ThreadPool& pool,
                 const Value& value) {
  pool.parallel_ranges(columns, kColumnStrip, [&](int64_t begin, int64_t end) {
    T total[kColumnStrip] = {};
    const int64_t width = end - begin;
    for (int64_t block = 0; block < rows; block += kRowBlock) {
      T part[kColumnStrip] = {};
      const int64_t block_end = std::min(rows, block + kRowBlock);
      for (int64_t r = block; r < block_end; ++r) {
        if (width == kColumnStrip) {
          for (int64_t c = 0; c < kColumnStrip; ++c) part[c] += value(r, begin + c);
        } else {
          for (int64_t c = 0; c < width; ++c) part[c] += value(r, begin + c);
        }
      }
      for (int64_t c = 0; c < width; ++c) total[c] += part[c];
    }
    for (int64_t c = 0; c < width; ++c) {
      out[begin + c] = accumulate ? out[begin + c] + total[c] : total[c];
    }
  });
}

}  // namespace plimsoll
