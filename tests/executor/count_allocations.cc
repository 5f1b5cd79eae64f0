#include "tests/executor/count_allocations.h"

#include "tests/executor/sanitized.h"

#include <cstdlib>
#include <new>

namespace {

thread_local bool counting = false;
thread_local int64_t num_allocations = 0;

}  // namespace

#if PLIMSOLL_SANITIZED
namespace plimsoll::test {
bool allocations_are_counted() { return false; }
}  // namespace plimsoll::test
#else
void* operator new(size_t bytes) {
  if (counting) ++num_allocations;
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*bytes*/) noexcept { std::free(memory); }

namespace plimsoll::test {
bool allocations_are_counted() { return true; }
}  // namespace plimsoll::test
#endif

namespace plimsoll::test {

int64_t count_allocations(const std::function<void()>& code) {
  num_allocations = 0;
  counting = true;
  code();
  counting = false;
  return num_allocations;
}

}  // namespace plimsoll::test
