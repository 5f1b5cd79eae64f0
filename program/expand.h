// The flat program: every iteration a segment of its own, every micro-batch absolute.
//
// For tests and for people: it does what the folded one does, and liveness, timeline, placement and
// verify agree on both.
#pragma once

#include "program/program.h"

namespace plimsoll {

// Header, buffers and offsets stay as they are. Precondition: the structural rules of
// program/verify.h hold. Throws Error (exit 2) when the flat program would have more than
// `max_instructions`, or a micro-batch index that an instruction cannot hold.
[[nodiscard]] StepProgram expand(const StepProgram& program,
                                 int64_t max_instructions = int64_t{1} << 22);

}  // namespace plimsoll
