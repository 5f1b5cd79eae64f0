// A phase's iterations, cut to the few that matter: the positions that liveness is computed on.
//
// A segment of `repeat` iterations is folded: iteration i touches copy (micro-batch modulo copies),
// so after `period` iterations every slot is as before. Of a segment with more than 4 periods only
// 3 periods and the remainder (repeat modulo period) are kept: the first ones, and the last period.
//
// Why that suffices. Take a copy that the segment touches. It is touched in every window of
// `period` iterations, in the same pattern of reads and definitions. Whether its bytes hold a live
// value at a point depends on the next touch (a read: live; a definition: not), which lies less
// than one period ahead unless the point is in the last period. So all iterations before the last
// period whose numbers are equal modulo the period have the same live copies, but for values that
// came in from outside: those are read for the last time in the first period, or are never
// redefined and then live through to the last. In the last period the next touch may lie in a later
// segment; keeping `repeat` unchanged modulo the period keeps the slots there. A copy that the
// segment does not touch is live throughout or not at all. Streams are joined between iterations,
// so the order of two instructions of different iterations never depends on how many are left out.
#pragma once

#include "program/program.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// // Bounds on the work that a program may ask for, over all phases: kept instructions and their
// operands, and buffer copies times phases. No honest program comes near, and a file may claim
// anything.
inline constexpr int64_t kMaxTouches = int64_t{1} << 25;
inline constexpr int64_t kMaxCopies = int64_t{1} << 23;

// Which iteration of its segment a position is in, as people want to know it.
enum class IterationKind : uint8_t { kOnly, kFirst, kMiddle, kLast };
[[nodiscard]] std::string_view iteration_kind_name(IterationKind kind);

struct FoldedPosition {
  int segment = 0;
  int64_t iteration = 0;  // of the segment as written, before the cut
  int64_t index = 0;      // in the body
  IterationKind kind = IterationKind::kOnly;
  friend bool operator==(const FoldedPosition&, const FoldedPosition&) = default;
};

struct SegmentExpansion {
  int64_t first_position = 0;
  int64_t body_size = 0;
  int64_t period = 1;
  int64_t repeat = 1;      // as written
  int64_t iterations = 1;  // kept

  // Number, as written, of the kept iteration `kept`; equal to it modulo the period.
  [[nodiscard]] int64_t written_iteration(int64_t kept) const {
    return kept < iterations - period ? kept : kept + (repeat - iterations);
  }
  [[nodiscard]] int64_t end_position() const { return first_position + iterations * body_size; }
};

class PhaseExpansion {
 public:
  // Precondition: operands are in range, copies and repeats positive. Throws Error (exit 2) when
  // more than kMaxTouches instructions and operands would be kept.
  PhaseExpansion(const StepProgram& program, const Phase& phase);

  [[nodiscard]] int64_t num_positions() const { return num_positions_; }
  // Kept instructions and their operands: what a walk over the positions costs.
  [[nodiscard]] int64_t num_touches() const { return num_touches_; }
  [[nodiscard]] const std::vector<SegmentExpansion>& segments() const { return segments_; }
  // Precondition: 0 <= position < num_positions().
  [[nodiscard]] FoldedPosition locate(int64_t position) const;

 private:
  std::vector<SegmentExpansion> segments_;
  int64_t num_positions_ = 0;
  int64_t num_touches_ = 0;
};

// The copy that `instruction` touches of a buffer with `copies` copies, in iteration `iteration` of
// `segment` (as written).
[[nodiscard]] int64_t copy_touched(const Segment& segment, const Instruction& instruction,
                                   int64_t iteration, int64_t copies);

// "step, segment 'micro-batches', iteration 3 (middle), instruction 12 (linear)"
[[nodiscard]] std::string position_text(const Phase& phase, const FoldedPosition& position);

}  // namespace plimsoll
