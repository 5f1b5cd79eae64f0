#include "kernels/emulation/address_space.h"

#include "base/error.h"

#include <sys/mman.h>

#include <algorithm>

namespace plimsoll::emulation {
namespace {

constexpr uint64_t kGapBytes = uint64_t{64} << 10;

void* map(uint64_t bytes, int protection) {
  void* mapped =
      ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

}  // namespace

AddressSpace& AddressSpace::instance() {
  static AddressSpace space;
  return space;
}

AddressSpace::AddressSpace() {
  void* reserved = map(kReservedBytes, PROT_NONE);
  if (reserved == nullptr) {
    throw run_failed("the system reserves no addresses for emulated GPUs", "raise ulimit -v");
  }
  begin_ = reinterpret_cast<uintptr_t>(reserved);
  next_ = begin_ + kGapBytes;
}

void* AddressSpace::allocate(int64_t bytes) {
  const std::scoped_lock lock(mutex_);
  const uint64_t taken = (static_cast<uint64_t>(bytes) + kGapBytes - 1) / kGapBytes * kGapBytes;
  if (bytes < 0 || next_ + taken + kGapBytes - begin_ > kReservedBytes) return nullptr;
  auto made = std::make_shared<Allocation>();
  made->begin = next_;
  made->bytes = bytes;
  if (taken > 0 &&
      ::mprotect(reinterpret_cast<void*>(made->begin), taken, PROT_READ | PROT_WRITE) != 0) {
    return nullptr;
  }
  made->shadow_bytes = (bytes / kShadowWordBytes + 1) * static_cast<int64_t>(sizeof(ShadowWord));
  // Zero pages are marks of interval 0, which is before every launch.
  made->shadow = static_cast<ShadowWord*>(
      map(static_cast<uint64_t>(made->shadow_bytes), PROT_READ | PROT_WRITE));
  if (made->shadow == nullptr) return nullptr;
  next_ += taken + kGapBytes;
  allocations_.push_back(made);
  return reinterpret_cast<void*>(made->begin);
}

bool AddressSpace::release(void* memory) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::find_if(allocations_.begin(), allocations_.end(), [&](const auto& a) {
    return a->begin == reinterpret_cast<uintptr_t>(memory);
  });
  if (found == allocations_.end()) return false;
  const Allocation& gone = **found;
  ::munmap(gone.shadow, static_cast<size_t>(gone.shadow_bytes));
  // Addresses are not used again, so what still points here is found out.
  ::mmap(reinterpret_cast<void*>(gone.begin), static_cast<size_t>(gone.bytes), PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  allocations_.erase(found);
  return true;
}

std::shared_ptr<const Allocation> AddressSpace::find(uintptr_t address) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& allocation : allocations_) {
    if (address - allocation->begin < static_cast<uintptr_t>(allocation->bytes)) return allocation;
  }
  return nullptr;
}

}  // namespace plimsoll::emulation
