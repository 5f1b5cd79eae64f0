// When each copy of each buffer holds a value that is still needed.
//
// A value is live from the instruction that defines it (an output without its accumulate bit) to
// its last use before the next definition; an accumulated output is a read and a write. Persistent
// buffers are live everywhere in every phase. Intervals are half-open over the positions of the cut
// expansion (program/expansion.h). With several streams an interval ends only where every later
// instruction of the list happens after all uses (BodyOrder::release), so copies whose intervals do
// not overlap may share bytes in whatever order the streams run.
#pragma once

#include "base/interval.h"
#include "program/expansion.h"
#include "program/program.h"

#include <cstdint>
#include <vector>

namespace plimsoll {

// A read of a copy that nothing has defined earlier in the phase: the first one of that copy.
struct UndefinedRead {
  int buffer = 0;
  int64_t copy = 0;
  int64_t position = 0;
};

struct PhaseLiveness {
  PhaseExpansion expansion;
  std::vector<std::vector<Interval>> live;  // by copy id; ascending, disjoint, not touching
  std::vector<bool> defined;                // by copy id: some instruction defines it in this phase
  std::vector<UndefinedRead> undefined_reads;
};

struct Liveness {
  std::vector<int64_t> first_copy;  // copy id of each buffer's copy 0; one more entry at the end
  std::vector<PhaseLiveness> phases;

  [[nodiscard]] int64_t copy_id(int buffer, int64_t copy) const {
    return first_copy[static_cast<size_t>(buffer)] + copy;
  }
  [[nodiscard]] int64_t num_copies() const { return first_copy.back(); }
};

// Precondition: the structural rules of program/verify.h hold. A copy read before it is defined
// counts as live from the phase's start. Throws Error (exit 2) when the cut expansion is too large.
[[nodiscard]] Liveness compute_liveness(const StepProgram& program);

}  // namespace plimsoll
