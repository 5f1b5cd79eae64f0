// Runs the blocks of a grid, one after the other: a block's threads are fibers of one host thread,
// which change at barriers and at exchanges between the lanes of a warp. A thread that never waits
// costs no change of fiber.
#pragma once

#include "kernels/cuda/queue.h"
#include "kernels/emulation/fault.h"

#include <cstdint>
#include <functional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

namespace plimsoll::emulation {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr Dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
  template <class I>
  constexpr Dim3(I a) : x(static_cast<unsigned>(a)) {}
  [[nodiscard]] constexpr int64_t count() const { return int64_t{x} * y * z; }
};

// What a kernel sees of its place.
struct Place {
  Dim3 thread, block, block_dim, grid_dim;
};

struct Grid {
  std::string kernel;
  Dim3 grid, block;
  int64_t shared_bytes = 0;
  std::vector<cuda::OperandRange> operands;
  std::function<void()> body;  // one thread
};

// Largest dynamic shared memory of a block on sm_80 (227 KiB on sm_90; the smaller is the
// contract).
inline constexpr int64_t kMaxSharedBytes = int64_t{163} << 10;
inline constexpr int64_t kMaxBlockThreads = 1024;

// Runs the grid; `seed` permutes the order in which threads run. Nothing is thrown: the first fault
// ends the launch and is returned.
[[nodiscard]] Fault run_grid(const Grid& grid, uint64_t seed);

// Called by kernels, through device.h.
[[nodiscard]] const Place& place();
[[nodiscard]] void* shared_memory();
void sync_threads(const std::source_location& at);
// All 32 lanes of a warp give a value and get that of lane `source`.
[[nodiscard]] uint64_t exchange(uint64_t value, int source, const std::source_location& at);
// Of all 32 lanes, bit by lane.
[[nodiscard]] uint32_t ballot(bool predicate, const std::source_location& at);
[[nodiscard]] int lane();
// Checks an access and remembers it; does nothing outside a running kernel.
void note_access(const void* address, int64_t bytes, bool writes, bool atomic = false);
// *address += value, giving what was there. Not a template: the hooks must not see its parts.
int32_t atomic_add(int32_t* address, int32_t value);
float atomic_add(float* address, float value);

}  // namespace plimsoll::emulation
