// The words of the program text: names bare or quoted, numbers that read back to the same value.
// Internal to the printer and the parser.
#pragma once

#include "program/program.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::text {

inline constexpr std::string_view kMagic = "plimsoll_program";

// Bare where it starts with a letter, digit or '_' and goes on with these or one of ".:/-"; else
// quoted.
[[nodiscard]] std::string name(std::string_view value);
// "…" with \" \\ \n \t and \xHH for other control bytes; all else as it is.
[[nodiscard]] std::string quoted(std::string_view value);
// Shortest text that reads back to the same double; always with a '.', an exponent or a letter.
[[nodiscard]] std::string real(double value);
// "[4,1024]"
[[nodiscard]] std::string list(const std::vector<int64_t>& values);

[[nodiscard]] std::string_view initialiser_name(Initialiser::Kind kind);

// Reads one line from left to right; blanks between words are skipped. Every failure throws Error
// with the file and line.
class LineScanner {
 public:
  LineScanner(std::string_view line, std::string_view file_name, int64_t line_number)
      : line_(line), file_name_(file_name), line_number_(line_number) {}

  [[nodiscard]] bool at_end();
  // The next byte that is not blank, or 0 at the end.
  [[nodiscard]] char peek();
  // Takes `symbol` if it comes next.
  [[nodiscard]] bool accept(std::string_view symbol);
  void expect(std::string_view symbol);
  void expect_end();

  [[nodiscard]] std::string word(std::string_view what);  // bare only
  [[nodiscard]] std::string name(std::string_view what);  // bare or quoted
  [[nodiscard]] int64_t integer(std::string_view what);
  [[nodiscard]] int small_integer(std::string_view what);  // within int
  [[nodiscard]] double real(std::string_view what);
  [[nodiscard]] AttributeValue value(std::string_view what);       // integer, real or quoted word
  [[nodiscard]] std::vector<int64_t> list(std::string_view what);  // "[1,2]"
  [[nodiscard]] std::vector<int64_t> row(std::string_view what);   // "1,2"

  [[noreturn]] void fail(std::string_view message) const;
  [[noreturn]] void expected(std::string_view what);

 private:
  void skip_blanks();
  [[nodiscard]] std::string_view rest() const { return line_.substr(at_); }
  [[nodiscard]] std::string quoted_rest();

  std::string_view line_;
  std::string_view file_name_;
  int64_t line_number_;
  size_t at_ = 0;
};

}  // namespace plimsoll::text
