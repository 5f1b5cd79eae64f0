#include "executor/arena.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/units.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace plimsoll {

namespace {

// Whole words of the pattern; a tail shorter than a word gets the pattern's first bytes.
void fill_pattern(std::byte* begin, int64_t bytes) {
  int64_t at = 0;
  for (; at + 4 <= bytes; at += 4) std::memcpy(begin + at, &kArenaPattern, 4);
  if (at < bytes) std::memcpy(begin + at, &kArenaPattern, static_cast<size_t>(bytes - at));
}

// Whether the word (or the shorter tail) at `at` holds the pattern.
bool holds_pattern(const std::byte* at, int64_t bytes) {
  return std::memcmp(at, &kArenaPattern, static_cast<size_t>(std::min<int64_t>(bytes, 4))) == 0;
}

}  // namespace

Arena::Arena(int64_t bytes, int64_t cap_bytes) : bytes_(bytes) {
  if (bytes < 0) throw bad_input(fmt::format("an arena of {} bytes", bytes));
  if (bytes > cap_bytes) {
    throw Error(ExitCode::kInfeasible,
                fmt::format("the program needs an arena of {} bytes ({}), the device has {} ({})",
                            format_count(bytes), format_bytes(bytes), format_count(cap_bytes),
                            format_bytes(cap_bytes)),
                "raise --device-memory, or plan for this limit (--memory-limit)");
  }
  mapped_bytes_ = checked_add(bytes, kArenaGuardBytes);
  void* mapped = ::mmap(nullptr, static_cast<size_t>(mapped_bytes_), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    throw run_failed(fmt::format("the system refuses an arena of {} ({} bytes): {}",
                                 format_bytes(bytes), format_count(bytes), std::strerror(errno)),
                     "free memory on this machine, or plan for fewer or smaller devices");
  }
  base_ = static_cast<std::byte*>(mapped);
  fill_pattern(base_, mapped_bytes_);
}

Arena::~Arena() { ::munmap(base_, static_cast<size_t>(mapped_bytes_)); }

std::byte* Arena::allocate(int64_t offset, int64_t bytes, const std::string& what) {
  if (sealed_) {
    throw run_failed(
        fmt::format("{}: {} bytes asked of the arena after it was sealed", what, bytes),
        "all memory is placed before step 0; this is a mistake in the program that is run");
  }
  if (offset < 0 || bytes < 0 || bytes > bytes_ || offset > bytes_ - bytes) {
    throw bad_input(fmt::format("{}: {} bytes at offset {} lie outside the arena of {} bytes", what,
                                bytes, offset, bytes_));
  }
  return base_ + offset;
}

int64_t Arena::measured_bytes(int64_t alignment) const {
  const int64_t tail = bytes_ % 4;
  if (tail != 0 && !holds_pattern(base_ + bytes_ - tail, tail)) return align_up(bytes_, alignment);
  int64_t end = bytes_ - tail;
  while (end > 0 && holds_pattern(base_ + end - 4, 4)) end -= 4;
  return align_up(end, alignment);
}

bool Arena::guard_intact() const {
  // The guard's words continue those of the arena, so they are compared from a word's start.
  const int64_t first = bytes_ - bytes_ % 4;
  const int64_t shared = bytes_ % 4;
  const auto* pattern = reinterpret_cast<const std::byte*>(&kArenaPattern);
  for (int64_t at = shared; at < 4; ++at) {
    if (base_[first + at] != pattern[at]) return false;
  }
  for (int64_t at = first + 4; at < mapped_bytes_; at += 4) {
    if (!holds_pattern(base_ + at, mapped_bytes_ - at)) return false;
  }
  return true;
}

void poison_bytes(std::byte* begin, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 4) {
    const int64_t width = std::min<int64_t>(4, bytes - at);
    if (!holds_pattern(begin + at, width)) {
      std::memcpy(begin + at, &kPoisonPattern, static_cast<size_t>(width));
    }
  }
}

}  // namespace plimsoll
