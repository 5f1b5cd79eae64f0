#include "base/checked.h"
#include "planner/placement.h"
#include "program/liveness.h"

#include <algorithm>

namespace plimsoll {

namespace {

// A copy's life in all phases, one phase after the other: phases never run at the same time, so one
// packing serves all of them, also where a buffer is used in several.
std::vector<Interval> life_over_phases(const Liveness& liveness, size_t id) {
  std::vector<Interval> out;
  int64_t start = 0;
  for (const PhaseLiveness& phase : liveness.phases) {
    for (const Interval& live : phase.live[id]) {
      out.push_back({start + live.lower, start + live.upper});
    }
    start += phase.expansion.num_positions();
  }
  return out;
}

}  // namespace

Placement place_buffers(StepProgram& program) {
  const int64_t alignment = program.header.alignment;
  int64_t base = 0;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    Buffer& buffer = program.buffers[b];
    buffer.offsets.clear();
    if (!buffer.persistent || buffer.place != Place::kDevice) continue;
    for (int copy = 0; copy < buffer.copies; ++copy) {
      buffer.offsets.push_back(base);
      base = checked_add(base, program.reserved_bytes(static_cast<int>(b)));
    }
  }

  const Liveness liveness = compute_liveness(program);
  std::vector<PlacementItem> items;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.persistent || buffer.place != Place::kDevice) continue;
    for (int64_t id = liveness.first_copy[b]; id < liveness.first_copy[b + 1]; ++id) {
      items.push_back({buffer.bytes(), life_over_phases(liveness, static_cast<size_t>(id))});
    }
  }
  Placement placement = place(items, alignment);
  size_t next = 0;
  for (Buffer& buffer : program.buffers) {
    if (buffer.persistent || buffer.place != Place::kDevice) continue;
    for (int copy = 0; copy < buffer.copies; ++copy, ++next) {
      // A copy that is never live takes no room; it gets the arena's start, inside whatever it has.
      const bool dead = items[next].live.empty();
      buffer.offsets.push_back(dead ? 0 : checked_add(base, placement.offsets[next]));
    }
  }
  program.header.arena_bytes = checked_add(base, items.empty() ? 0 : placement.height);
  return placement;
}

}  // namespace plimsoll
