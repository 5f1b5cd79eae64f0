// Device memory of the emulated GPUs: host memory in one reserved range of addresses, so that any
// access of a kernel to it is told apart from an access to its own stack.
#pragma once

#include "kernels/emulation/shadow.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace plimsoll::emulation {

struct Allocation {
  uintptr_t begin = 0;
  int64_t bytes = 0;
  ShadowWord* shadow = nullptr;  // one a word, mapped where it is touched
  int64_t shadow_bytes = 0;
  [[nodiscard]] uintptr_t end() const { return begin + static_cast<uintptr_t>(bytes); }
};

class AddressSpace {
 public:
  static AddressSpace& instance();

  // Whether an address belongs to some device, allocated or not.
  [[nodiscard]] bool contains(uintptr_t address) const { return address - begin_ < kReservedBytes; }
  // Null when there is no room. Memory is not zeroed by contract; neighbours are 64 KiB apart.
  [[nodiscard]] void* allocate(int64_t bytes);
  // False when the address is not the beginning of an allocation.
  bool release(void* memory);
  // The allocation that holds the address, or null. Valid until it is released.
  [[nodiscard]] std::shared_ptr<const Allocation> find(uintptr_t address) const;

 private:
  AddressSpace();
  static constexpr uint64_t kReservedBytes = uint64_t{1} << 38;
  uintptr_t begin_ = 0;
  uintptr_t next_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const Allocation>> allocations_;
};

}  // namespace plimsoll::emulation
