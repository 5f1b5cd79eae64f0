// Memory over a phase: what is live at each instruction, by category.
//
// Device bytes are the sizes that buffers reserve in the arena (rounded up to the alignment), so
// that `live_peak` is the lower bound of every placement, to the byte. Host buffers are summed
// apart.
#pragma once

#include "program/liveness.h"
#include "program/program.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll {

using CategoryBytes = std::array<int64_t, kNumCategories>;

// What is live while one instruction runs.
struct TimelinePoint {
  int64_t position = -1;  // in the cut expansion; -1 in a phase without instructions
  FoldedPosition folded;
  int64_t live_bytes = 0;
  CategoryBytes by_category{};
};

struct PhaseTimeline {
  std::string phase;
  // For each segment, kind of iteration and instruction of the body, in that order: the largest
  // live bytes over the iterations of that kind, and the first iteration that has them.
  std::vector<TimelinePoint> points;
  TimelinePoint peak;       // device; the first position with the largest live_bytes
  TimelinePoint host_peak;  // the same of host buffers
  int64_t arena_bytes =
      0;  // highest end of a buffer that is live in this phase; 0 before placement
};

struct MemoryTimeline {
  std::vector<PhaseTimeline> phases;
  int peak_phase = -1;  // index of the phase with the largest live peak, the first of equals

  [[nodiscard]] int64_t live_peak_bytes() const {
    return peak_phase < 0 ? 0 : phases[static_cast<size_t>(peak_phase)].peak.live_bytes;
  }
  [[nodiscard]] int64_t host_peak_bytes() const;
};

// `liveness` is compute_liveness(program). Throws Error (exit 2) when sizes overflow.
[[nodiscard]] MemoryTimeline compute_timeline(const StepProgram& program, const Liveness& liveness);
[[nodiscard]] MemoryTimeline compute_timeline(const StepProgram& program);

struct LiveCopy {
  int buffer = 0;
  int64_t copy = 0;
  int64_t reserved_bytes = 0;
  friend bool operator==(const LiveCopy&, const LiveCopy&) = default;
};

// The copies of `place` that are live at a position of a phase, by buffer and copy. Position -1 (a
// phase without instructions) has the persistent ones.
[[nodiscard]] std::vector<LiveCopy> live_at(const StepProgram& program, const Liveness& liveness,
                                            int phase, int64_t position, Place place);

}  // namespace plimsoll
