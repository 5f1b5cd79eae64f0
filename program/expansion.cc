#include "program/expansion.h"

#include "base/error.h"

#include <algorithm>
#include <numeric>

namespace plimsoll {

namespace {

// Wide enough for any product of two 64-bit numbers that a file may claim.
__extension__ using Wide = __int128;

int64_t modulo(Wide value, int64_t divisor) {
  const auto rest = static_cast<int64_t>(value % divisor);
  return rest < 0 ? rest + divisor : rest;
}

// Smallest number of iterations after which every operand's slot repeats; above kMaxTouches the
// number is only a lower bound.
int64_t slot_period(const StepProgram& program, const Segment& segment) {
  int64_t period = 1;
  const auto add = [&](int buffer) {
    if (buffer == kNoBuffer) return;
    const int64_t copies = program.buffers[static_cast<size_t>(buffer)].copies;
    if (copies == 1 || period > kMaxTouches) return;
    const int64_t step = modulo(segment.microbatch_stride, copies);
    const int64_t own = copies / std::gcd(copies, step);
    period = period / std::gcd(period, own) * own;  // at most 2^25 times 2^31: no overflow
  };
  for (const Instruction& instruction : segment.body) {
    for (const int buffer : instruction.inputs) add(buffer);
    for (const int buffer : instruction.outputs) add(buffer);
  }
  return period;
}

}  // namespace

std::string_view iteration_kind_name(IterationKind kind) {
  switch (kind) {
    case IterationKind::kOnly:
      return "only";
    case IterationKind::kFirst:
      return "first";
    case IterationKind::kMiddle:
      return "middle";
    case IterationKind::kLast:
      return "last";
  }
  return "?";
}

PhaseExpansion::PhaseExpansion(const StepProgram& program, const Phase& phase) {
  for (const Segment& segment : phase.segments) {
    SegmentExpansion out;
    out.first_position = num_positions_;
    out.body_size = static_cast<int64_t>(segment.body.size());
    out.repeat = segment.repeat;
    out.period = slot_period(program, segment);
    out.iterations = segment.repeat;
    if (out.period <= segment.repeat / 4) {
      out.iterations = 3 * out.period + segment.repeat % out.period;
    }
    if (out.body_size == 0) out.iterations = 0;
    int64_t touches = out.body_size;
    for (const Instruction& instruction : segment.body) {
      touches += static_cast<int64_t>(instruction.inputs.size() + instruction.outputs.size());
    }
    if (touches > 0 && out.iterations > (kMaxTouches - num_touches_) / touches) {
      throw bad_input(
          fmt::format(
              "phase '{}', segment '{}': {} iterations of {} instructions, whose buffers' slots "
              "repeat after {} iterations; more than {} operands would have to be looked at",
              phase.name, segment.name, segment.repeat, out.body_size, out.period, kMaxTouches),
          "use fewer copies of the buffers, or numbers of copies that divide each other");
    }
    num_touches_ += out.iterations * touches;
    num_positions_ += out.iterations * out.body_size;
    segments_.push_back(out);
  }
}

FoldedPosition PhaseExpansion::locate(int64_t position) const {
  PLIMSOLL_CHECK(position >= 0 && position < num_positions_, "position {} of {}", position,
                 num_positions_);
  // The last segment that starts at or before the position; empty ones start where the next does.
  const auto after = std::upper_bound(
      segments_.begin(), segments_.end(), position,
      [](int64_t p, const SegmentExpansion& segment) { return p < segment.first_position; });
  const SegmentExpansion& segment = *(after - 1);
  FoldedPosition out;
  out.segment = static_cast<int>(after - 1 - segments_.begin());
  const int64_t offset = position - segment.first_position;
  out.index = offset % segment.body_size;
  out.iteration = segment.written_iteration(offset / segment.body_size);
  if (segment.repeat == 1) {
    out.kind = IterationKind::kOnly;
  } else if (out.iteration == 0) {
    out.kind = IterationKind::kFirst;
  } else {
    out.kind = out.iteration == segment.repeat - 1 ? IterationKind::kLast : IterationKind::kMiddle;
  }
  return out;
}

int64_t copy_touched(const Segment& segment, const Instruction& instruction, int64_t iteration,
                     int64_t copies) {
  if (copies == 1) return 0;
  const Wide microbatch = Wide{segment.first_microbatch} +
                          Wide{iteration} * segment.microbatch_stride + instruction.microbatch;
  return modulo(microbatch, copies);
}

std::string position_text(const Phase& phase, const FoldedPosition& position) {
  const Segment& segment = phase.segments[static_cast<size_t>(position.segment)];
  const Instruction& instruction = segment.body[static_cast<size_t>(position.index)];
  const std::string iteration = position.kind == IterationKind::kOnly
                                    ? std::string()
                                    : fmt::format(", iteration {} ({})", position.iteration,
                                                  iteration_kind_name(position.kind));
  return fmt::format("phase '{}', segment '{}'{}, instruction {} ({})", phase.name, segment.name,
                     iteration, position.index, instruction.op);
}

}  // namespace plimsoll
