// Offsets for buffers with known lifetimes, so that live buffers never overlap: packing in two
// dimensions, bytes and time ("dynamic storage allocation", NP-hard).
//
// Deterministic: the result depends on the items alone. Every item's offset and reserved size are
// multiples of the alignment.
#pragma once

#include "base/interval.h"
#include "program/program.h"

#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll {

struct PlacementItem {
  int64_t size = 0;
  std::vector<Interval> live;  // ascending and disjoint; empty: the item is never live
};

struct Placement {
  std::vector<int64_t> offsets;  // one for each item; 0 for an item of no size or no life
  int64_t height = 0;            // highest end
  int64_t lower_bound = 0;       // largest sum of sizes that are live together: no packing is lower
};

// The best of a few greedy packings, each with the items in another order: an item goes into the
// gap that fits it best among the items placed before that are live together with it, else on top
// of them. `alignment` is positive. Throws Error (exit 2) when the sizes' sum overflows.
[[nodiscard]] Placement place(std::span<const PlacementItem> items, int64_t alignment);

// Sets the offsets of every device buffer and header.arena_bytes: persistent buffers from 0 on, at
// the same offsets in all phases, the others above them. Host buffers get no offsets. Precondition:
// the structural rules of program/verify.h hold. Returns the transient part's placement, one item a
// device copy in order of buffers, for reports of waste.
Placement place_buffers(StepProgram& program);

}  // namespace plimsoll
