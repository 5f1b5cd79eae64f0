// Data sets of independent rows: images or features with a class, and regression.
#pragma once

#include "executor/data.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace plimsoll {

// A rectangular table of numbers, row by row.
struct NumberTable {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<float> values;
};

// Numbers separated by commas, one row a line; a first line that starts with no number is a
// heading. Throws Error (exit 2) naming line and column.
[[nodiscard]] NumberTable read_number_table(const std::string& path);

// Rows of pixels (or features) and, last, an integer class. Inputs are divided by the largest
// absolute value. Without a path: each class is a random picture, a sample is its picture in noise.
[[nodiscard]] std::unique_ptr<DataSource> open_classes(const std::string& path,
                                                       const DataSpec& spec,
                                                       const DataOptions& options);

// Rows of features, then values, as they are. Without a path: values are a random linear map of
// normal features, with noise of deviation 0.1. A validation set shorter than an evaluation is run
// through again, because a squared error has no target that counts nothing.
[[nodiscard]] std::unique_ptr<DataSource> open_regression(const std::string& path,
                                                          const DataSpec& spec,
                                                          const DataOptions& options);

}  // namespace plimsoll
