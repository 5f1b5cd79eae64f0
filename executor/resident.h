// What the operating system says this process holds.
#pragma once

#include <cstdint>

namespace plimsoll {

// Resident set of the process in bytes (VmRSS of /proc/self/status); 0 where that does not exist.
[[nodiscard]] int64_t process_resident_bytes();

// Resident bytes of the calling thread's stack.
[[nodiscard]] int64_t thread_stack_resident_bytes();

// The process's growth over a run and what it consists of.
struct ResidentGrowth {
  int64_t before_bytes = 0;    // before the first arena
  int64_t after_bytes = 0;     // after the last step, arenas still there
  int64_t arenas_bytes = 0;    // of the growth: arenas with guards, every page of them touched
  int64_t stacks_bytes = 0;    // stacks of the rank threads
  int64_t data_set_bytes = 0;  // held before the run began, so not part of the growth

  [[nodiscard]] int64_t growth_bytes() const { return after_bytes - before_bytes; }
  // The matrix library's buffers, the pools' stacks, code pages touched for the first time, heap.
  [[nodiscard]] int64_t rest_bytes() const { return growth_bytes() - arenas_bytes - stacks_bytes; }
};

}  // namespace plimsoll
