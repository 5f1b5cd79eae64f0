// What the emulator reports: the first thing that a kernel or the host's use of streams did wrong.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll::emulation {

enum class FaultKind : uint8_t {
  kNone,
  kOutOfBounds,       // outside every allocation, or outside the operands of the instruction
  kMisaligned,        // an address that is no multiple of the access's size
  kReadOnly,          // writes an operand that is an input alone
  kUninitialised,     // reads shared memory that nothing has written in this block
  kRace,              // two threads, one of them writing, with nothing that orders them
  kDivergentBarrier,  // not all threads of the block (or warp) reach the same barrier
  kStreamOrder,       // a stream uses memory without the event that orders it
  kBadLaunch,         // a grid, block or shared size that no GPU takes
};

struct Fault {
  FaultKind kind = FaultKind::kNone;
  std::string text;
};

}  // namespace plimsoll::emulation
