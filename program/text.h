// Programs as text, for people and for files: one line a buffer, one line an instruction.
//
// Exact both ways: parse_text(to_text(p)) == p, and printing again gives the same text. The format
// is described in docs/formats.md, "Program text".
#pragma once

#include "program/program.h"

#include <string>
#include <string_view>

namespace plimsoll {

// Any program prints, also one that breaks rules of verify.
[[nodiscard]] std::string to_text(const StepProgram& program);

// Throws Error (exit 2) with `file_name` and the line for anything that is not a program's text.
// Memory is bounded by the text's length. The result is not verified.
[[nodiscard]] StepProgram parse_text(std::string_view text, std::string_view file_name);

}  // namespace plimsoll
