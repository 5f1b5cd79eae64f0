#include "reports/text_table.h"

#include "base/error.h"

#include <algorithm>
#include <utility>

namespace plimsoll {

namespace {

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

}  // namespace

size_t display_width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

std::string pad_left(std::string_view text, size_t width) {
  const size_t have = display_width(text);
  return std::string(width > have ? width - have : 0, ' ') + std::string(text);
}

std::string pad_right(std::string_view text, size_t width) {
  const size_t have = display_width(text);
  return std::string(text) + std::string(width > have ? width - have : 0, ' ');
}

std::string to_ascii(std::string_view text) {
  static const std::vector<std::pair<std::string_view, std::string_view>> kSigns = {
      {"·", "|"}, {"×", "x"}, {"±", "~"}, {"█", "#"}, {"…", "..."}};
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      out += text[at++];
      continue;
    }
    const auto sign = std::find_if(kSigns.begin(), kSigns.end(), [&](const auto& pair) {
      return text.substr(at, pair.first.size()) == pair.first;
    });
    if (sign != kSigns.end()) {
      out += sign->second;
      at += sign->first.size();
      continue;
    }
    out += '?';
    for (++at; at < text.size() && !starts_character(text[at]);) ++at;
  }
  return out;
}

std::string TextTable::row(const std::vector<std::string>& cells) const {
  PLIMSOLL_CHECK(cells.size() <= columns_.size(), "{} cells in {} columns", cells.size(),
                 columns_.size());
  std::string line(indent_, ' ');
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += ' ';
    const auto pad = columns_[i].right ? pad_left : pad_right;
    line += pad(cells[i], columns_[i].width);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace plimsoll
