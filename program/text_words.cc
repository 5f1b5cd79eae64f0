#include "program/text_words.h"

#include "base/error.h"

#include <charconv>
#include <limits>

namespace plimsoll::text {

namespace {

bool is_word_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_word_byte(char c) {
  return is_word_start(c) || c == '.' || c == ':' || c == '/' || c == '-';
}

size_t word_length(std::string_view text) {
  if (text.empty() || !is_word_start(text[0])) return 0;
  size_t length = 1;
  while (length < text.size() && is_word_byte(text[length])) ++length;
  return length;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string quoted(std::string_view value) {
  std::string out = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string name(std::string_view value) {
  const bool bare = !value.empty() && word_length(value) == value.size();
  return bare ? std::string(value) : quoted(value);
}

std::string real(double value) {
  std::string out = fmt::format("{}", value);
  if (out.find_first_of(".en") == std::string::npos) out += ".0";
  return out;
}

std::string list(const std::vector<int64_t>& values) {
  return fmt::format("[{}]", fmt::join(values, ","));
}

std::string_view initialiser_name(Initialiser::Kind kind) {
  switch (kind) {
    case Initialiser::Kind::kZero:
      return "zero";
    case Initialiser::Kind::kOne:
      return "one";
    case Initialiser::Kind::kNormal:
      return "normal";
    case Initialiser::Kind::kUniform:
      return "uniform";
    case Initialiser::Kind::kRunning:
      return "running";
  }
  return "?";
}

void LineScanner::skip_blanks() {
  while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r'))
    ++at_;
}

bool LineScanner::at_end() {
  skip_blanks();
  return at_ == line_.size();
}

char LineScanner::peek() { return at_end() ? '\0' : line_[at_]; }

bool LineScanner::accept(std::string_view symbol) {
  skip_blanks();
  if (rest().substr(0, symbol.size()) != symbol) return false;
  at_ += symbol.size();
  return true;
}

void LineScanner::expect(std::string_view symbol) {
  if (!accept(symbol)) expected(fmt::format("'{}'", symbol));
}

void LineScanner::expect_end() {
  if (!at_end()) expected("the end of the line");
}

std::string LineScanner::word(std::string_view what) {
  skip_blanks();
  const size_t length = word_length(rest());
  if (length == 0) expected(what);
  std::string out(rest().substr(0, length));
  at_ += length;
  return out;
}

std::string LineScanner::name(std::string_view what) {
  return peek() == '"' ? quoted_rest() : word(what);
}

std::string LineScanner::quoted_rest() {
  std::string out;
  for (++at_; at_ < line_.size(); ++at_) {
    const char c = line_[at_];
    if (c == '"') {
      ++at_;
      return out;
    }
    if (c != '\\') {
      out += c;
      continue;
    }
    const std::string_view escape = rest().substr(1);
    if (escape.empty()) break;
    if (escape[0] == '"' || escape[0] == '\\') {
      out += escape[0];
      at_ += 1;
    } else if (escape[0] == 'n' || escape[0] == 't') {
      out += escape[0] == 'n' ? '\n' : '\t';
      at_ += 1;
    } else if (escape.size() >= 3 && escape[0] == 'x' && hex_digit(escape[1]) >= 0 &&
               hex_digit(escape[2]) >= 0) {
      out += static_cast<char>(hex_digit(escape[1]) * 16 + hex_digit(escape[2]));
      at_ += 3;
    } else {
      fail(
          "unknown escape in a quoted name; known are \\\" \\\\ \\n \\t and \\x with two hex "
          "digits");
    }
  }
  fail("a quoted name does not end on its line");
}

int64_t LineScanner::integer(std::string_view what) {
  skip_blanks();
  int64_t out = 0;
  const auto [end, error] = std::from_chars(rest().data(), rest().data() + rest().size(), out);
  if (error == std::errc::result_out_of_range)
    fail(fmt::format("{} does not fit in 64 bits", what));
  if (error != std::errc{}) expected(what);
  at_ += static_cast<size_t>(end - rest().data());
  return out;
}

int LineScanner::small_integer(std::string_view what) {
  const int64_t out = integer(what);
  if (out < std::numeric_limits<int>::min() || out > std::numeric_limits<int>::max()) {
    fail(fmt::format("{} {} is out of range", what, out));
  }
  return static_cast<int>(out);
}

double LineScanner::real(std::string_view what) {
  skip_blanks();
  double out = 0;
  const auto [end, error] = std::from_chars(rest().data(), rest().data() + rest().size(), out);
  if (error == std::errc::result_out_of_range) fail(fmt::format("{} is out of range", what));
  if (error != std::errc{}) expected(what);
  at_ += static_cast<size_t>(end - rest().data());
  return out;
}

AttributeValue LineScanner::value(std::string_view what) {
  if (peek() == '"') return quoted_rest();
  // A number is an integer when nothing but digits and a sign is in it.
  const std::string_view text = rest();
  const size_t length = text.find_first_of(" \t\r,}");
  const bool whole =
      text.substr(0, length).find_first_not_of("-0123456789") == std::string_view::npos;
  if (whole) return integer(what);
  return real(what);
}

std::vector<int64_t> LineScanner::row(std::string_view what) {
  std::vector<int64_t> out = {integer(what)};
  while (accept(",")) out.push_back(integer(what));
  return out;
}

std::vector<int64_t> LineScanner::list(std::string_view what) {
  expect("[");
  if (accept("]")) return {};
  std::vector<int64_t> out = row(what);
  expect("]");
  return out;
}

void LineScanner::fail(std::string_view message) const {
  throw bad_input(fmt::format("{}:{}: {}", file_name_, line_number_, message),
                  "the format is described in docs/formats.md, \"Program text\"");
}

void LineScanner::expected(std::string_view what) {
  constexpr size_t kShown = 30;
  if (at_end()) fail(fmt::format("expected {}, found the end of the line", what));
  fail(fmt::format("expected {}, found {}", what, quoted(rest().substr(0, kShown))));
}

}  // namespace plimsoll::text
