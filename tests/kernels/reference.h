// Plain definitions of every operation that has no gradient to check it by, and of every forward
// pass: nested loops in double precision, as the formula is written down.
#pragma once

#include "executor/bind.h"

#include <string_view>

namespace plimsoll::testing {

// The reference of an op on f64 operands, or null when there is none.
[[nodiscard]] KernelFunction find_reference(std::string_view op);

}  // namespace plimsoll::testing
