#include "reports/text_table.h"

#include "base/error.h"

#include <algorithm>
#include <utility>

namespace plimsoll {

namespace {

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

constexpr size_t kGutter = 12;  // right-aligned words of a report's head

size_t hanging_indent(std::string_view line) {
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const bool gutter = indent > 2 && indent < kGutter && line.size() > kGutter + 2 &&
                      line[kGutter - 1] != ' ' && line.substr(kGutter, 2) == "  ";
  return gutter ? kGutter + 2 : indent + 2;
}

// The last space at which a line of more than `width` columns may be broken, or npos.
size_t break_at(std::string_view line, size_t width, size_t indent) {
  size_t columns = 0;
  size_t space = std::string_view::npos;
  for (size_t i = 0; i < line.size(); ++i) {
    if (starts_character(line[i])) ++columns;
    if (columns > width + 1) break;
    if (line[i] == ' ' && i > indent) space = i;
  }
  return space;
}

void append_wrapped(std::string line, size_t width, std::string& out) {
  size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const size_t hang = hanging_indent(line);
  while (display_width(line) > width) {
    const size_t at = break_at(line, width, indent);
    if (at == std::string::npos) break;
    const size_t next = std::min(line.find_first_not_of(' ', at), line.size());
    out += line.substr(0, line.find_last_not_of(' ', at) + 1) + "\n";
    line = std::string(hang, ' ') + line.substr(next);
    indent = hang;
  }
  out += line + "\n";
}

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

std::string wrap_lines(std::string_view text, size_t width) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    append_wrapped(std::string(text.substr(0, end)), width, out);
    text.remove_prefix(std::min(end + 1, text.size()));
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
