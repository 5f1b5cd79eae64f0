#include "program/expand.h"

#include "base/checked.h"

#include <limits>

namespace plimsoll {

namespace {

Segment flat_iteration(const Segment& segment, int64_t iteration) {
  Segment out = segment;
  const int64_t base =
      checked_add(segment.first_microbatch, checked_mul(iteration, segment.microbatch_stride));
  if (segment.repeat > 1) out.name = fmt::format("{}.{}", segment.name, iteration);
  out.repeat = 1;
  out.first_microbatch = 0;
  out.microbatch_stride = 1;
  for (Instruction& instruction : out.body) {
    const int64_t microbatch = checked_add(base, instruction.microbatch);
    if (microbatch > std::numeric_limits<int>::max() || microbatch < 0) {
      throw bad_input(fmt::format("segment '{}', iteration {}: micro-batch {} is out of range",
                                  segment.name, iteration, microbatch));
    }
    instruction.microbatch = static_cast<int>(microbatch);
  }
  return out;
}

}  // namespace

StepProgram expand(const StepProgram& program, int64_t max_instructions) {
  StepProgram out;
  out.header = program.header;
  out.buffers = program.buffers;
  int64_t room = max_instructions;
  for (const Phase& phase : program.phases) {
    out.phases.push_back({phase.name, {}});
    for (const Segment& segment : phase.segments) {
      const auto size = static_cast<int64_t>(segment.body.size());
      if (size == 0) continue;
      if (segment.repeat > room / size) {
        throw bad_input(
            fmt::format("the flat program has more than {} instructions", max_instructions),
            "look at the folded program instead");
      }
      room -= segment.repeat * size;
      for (int64_t i = 0; i < segment.repeat; ++i) {
        out.phases.back().segments.push_back(flat_iteration(segment, i));
      }
    }
  }
  return out;
}

}  // namespace plimsoll
