// Columns of text for the console, measured in characters rather than bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// Characters of UTF-8 text, each one column wide.
[[nodiscard]] size_t display_width(std::string_view text);
[[nodiscard]] std::string pad_left(std::string_view text, size_t width);
[[nodiscard]] std::string pad_right(std::string_view text, size_t width);

// The signs that reports use (· × ± █ …) in plain ASCII; other characters become '?'.
[[nodiscard]] std::string to_ascii(std::string_view text);

// Breaks lines longer than `width` at spaces; what follows is indented by two more than the line,
// or stands below the text of a line that begins with a gutter ("     Cluster  8xh200 …"). A word
// longer than the width stays whole.
[[nodiscard]] std::string wrap_lines(std::string_view text, size_t width);

struct Column {
  size_t width = 0;
  bool right = false;  // numbers
};

class TextTable {
 public:
  // One space lies between columns; a cell wider than its column pushes the rest to the right.
  TextTable(std::vector<Column> columns, size_t indent)
      : columns_(std::move(columns)), indent_(indent) {}

  // One line, without spaces at its end.
  [[nodiscard]] std::string row(const std::vector<std::string>& cells) const;

 private:
  std::vector<Column> columns_;
  size_t indent_;
};

}  // namespace plimsoll
