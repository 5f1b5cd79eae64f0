// Memory of programs as CSV: every buffer, or one line a pipeline stage.
//
// Invariant: for each rank the rows of memory_csv with at_peak=1 add up to the rank's peak, which
// is its arena plus what lies outside it. At the instruction with the largest live bytes these are
// the live buffers as they are reserved (rounded up to the alignment), then what the packing loses,
// then the outside bytes. So do a summary row's categories, where the last two count as
// `framework`.
#pragma once

#include "program/program.h"

#include <cstdint>
#include <span>
#include <string>

namespace plimsoll {

// Columns rank,stage,where,category,layer,op,tensor,count,bytes,persistent,at_peak. One row the
// live copies of a buffer at the peak, one its other copies (at_peak=0); `bytes` is all of the row;
// layer -1 lies outside the blocks. Host buffers have where=host and at_peak=0. Precondition: the
// programs are verified and placed.
[[nodiscard]] std::string memory_csv(std::span<const StepProgram> programs);

// Columns stage,<the eight categories>,peak,limit,headroom,host: for each pipeline stage, in order,
// its rank with the largest peak. `host` is the largest sum of live host buffers. Bytes throughout.
// Precondition: the programs are verified and placed.
[[nodiscard]] std::string memory_summary_csv(std::span<const StepProgram> programs,
                                             int64_t memory_limit_bytes);

}  // namespace plimsoll
