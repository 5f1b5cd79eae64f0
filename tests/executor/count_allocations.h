// Counts what a piece of code takes from the heap, by replacing operator new in the test binary.
#pragma once

#include <cstdint>
#include <functional>

namespace plimsoll::test {

// False under sanitizers, which own the allocator.
[[nodiscard]] bool allocations_are_counted();

// Calls of operator new by this thread while `code` runs.
[[nodiscard]] int64_t count_allocations(const std::function<void()>& code);

}  // namespace plimsoll::test
