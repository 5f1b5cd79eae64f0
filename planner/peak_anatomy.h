// Where each byte is at a program's peak: what is live, in groups of like buffers, and why.
//
// The groups, what packing loses and what lies outside the arena add up to the program's peak.
#pragma once

#include "program/program.h"
#include "program/timeline.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace plimsoll {

// Where in a program memory peaks.
struct PeakInstruction {
  std::string phase;      // "step"; the other fields are empty in a phase without instructions
  std::string segment;    // "micro-batches"
  int64_t iteration = 0;  // of the segment, the first with the peak
  int64_t repeat = 1;     // iterations of the segment
  int64_t num_micro_batches = 1;  // of the rank in one step
  Pass pass = Pass::kForward;
  int layer = -1;
  std::string op;      // "linear.backward_weight"
  std::string writes;  // name of the first buffer that it writes: "d.wte.weight"
};

// Who touches a buffer next, from the peak on.
struct NextUse {
  enum class When : uint8_t {
    kNow,    // the peak instruction itself
    kLater,  // another instruction of the phase
    kNever,  // none in this phase: kept for the next one
  };
  When when = When::kNever;
  Pass pass = Pass::kForward;
  std::string op;
  int layer = -1;
  int64_t instructions_ahead = 0;
};

// Buffers that are alike: persistent ones and gradients of one role and type; others that differ
// in their layer alone.
struct BufferGroup {
  Category category = Category::kActivations;
  std::string label;  // "attn.c_attn", "moment1", "lm_head"
  DType dtype = DType::kF32;
  bool persistent = false;
  std::set<int> layers;  // blocks of the model; empty for buffers outside the blocks
  int64_t count = 0;
  int64_t bytes = 0;       // reserved, all together
  int64_t each_bytes = 0;  // 0 when sizes differ
  NextUse next;            // of most of them
};

struct PeakAnatomy {
  int rank = 0;
  PeakInstruction at;
  std::vector<BufferGroup> groups;  // largest first
  int64_t packing_bytes = 0;
  int64_t outside_bytes = 0;
  int64_t peak_bytes = 0;
  // What lives across steps and what lies outside: no split of the batch goes below it.
  int64_t floor_bytes = 0;
};

// Precondition: the program is verified and placed.
[[nodiscard]] PeakAnatomy peak_anatomy(const StepProgram& program);

}  // namespace plimsoll
