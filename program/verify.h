// Whether a program means something: the rules that every consumer relies on.
//
// A program from a file is verified before anything else looks at it. The rules are safe against
// any numbers: nothing overflows, and no memory is taken in proportion to a number that the file
// claims. Rules about values and placement assume those about structure, so they run only when
// these hold. Names of operations are not checked here: the executor knows its table.
#pragma once

#include "program/program.h"

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

struct Violation {
  std::string rule;     // short name, e.g. "overlap"
  std::string message;  // what is wrong and where, with values
  friend bool operator==(const Violation&, const Violation&) = default;
};

// Empty when the program is sound. A rule reports its first few violations only. A program without
// any offset and with arena_bytes 0 is one before placement: the placement rules do not apply to
// it.
[[nodiscard]] std::vector<Violation> verify(const StepProgram& program);

// Throws Error (exit 2) that names `where` ("plan.json, rank 0") and lists the first few
// violations.
void verify_or_throw(const StepProgram& program, std::string_view where);

// False before placement; who runs a program asks for it beside verify.
[[nodiscard]] bool is_placed(const StepProgram& program);

}  // namespace plimsoll
