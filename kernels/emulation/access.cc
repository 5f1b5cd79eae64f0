#include "kernels/emulation/executor.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll::emulation {

void Executor::check_operands(uintptr_t address, int64_t bytes, Access kind) {
  const std::vector<cuda::OperandRange>& operands = grid_->operands;
  const auto fits = [&](const cuda::OperandRange& range) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(range.begin);
    return address >= begin &&
           address + static_cast<uintptr_t>(bytes) <= begin + static_cast<uintptr_t>(range.bytes) &&
           (range.writable || kind == Access::kRead);
  };
  if (last_operand_ < operands.size() && fits(operands[last_operand_])) return;
  bool readable = false;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (fits(operands[i])) {
      last_operand_ = i;
      return;
    }
    const uintptr_t begin = reinterpret_cast<uintptr_t>(operands[i].begin);
    readable = readable || (address - begin < static_cast<uintptr_t>(operands[i].bytes));
  }
  if (readable && kind != Access::kRead)
    fail(FaultKind::kReadOnly, "writes an operand that is an input alone");
  // The nearest operand that begins at or before the address says how far off it is.
  const cuda::OperandRange* nearest = nullptr;
  for (const cuda::OperandRange& range : operands) {
    if (reinterpret_cast<uintptr_t>(range.begin) > address) continue;
    if (nearest == nullptr || range.begin > nearest->begin) nearest = &range;
  }
  fail(FaultKind::kOutOfBounds,
       nearest == nullptr
           ? fmt::format("{} {} bytes before every operand",
                         kind == Access::kRead ? "reads" : "writes", bytes)
           : fmt::format("{} {} bytes at byte {} of an operand of {} bytes",
                         kind == Access::kRead ? "reads" : "writes", bytes,
                         address - reinterpret_cast<uintptr_t>(nearest->begin), nearest->bytes));
}

void Executor::access(uintptr_t address, int64_t bytes, Access kind) {
  const auto window = reinterpret_cast<uintptr_t>(shared_.data());
  if (address - window < shared_.size()) {
    const auto base = reinterpret_cast<uintptr_t>(shared_begin());
    if (address < base || address + static_cast<uintptr_t>(bytes) >
                              base + static_cast<uintptr_t>(grid_->shared_bytes)) {
      fail(FaultKind::kOutOfBounds,
           fmt::format("{} bytes at byte {} of {} bytes of shared memory", bytes,
                       static_cast<int64_t>(address - base), grid_->shared_bytes));
    }
    note(shared_shadow_.data(), address, bytes, base, kind, true);
    return;
  }
  if (!AddressSpace::instance().contains(address)) return;  // the thread's own stack
  if (allocation_ == nullptr ||
      address - allocation_->begin >= static_cast<uintptr_t>(allocation_->bytes)) {
    allocation_ = AddressSpace::instance().find(address);
  }
  if (allocation_ == nullptr || address + static_cast<uintptr_t>(bytes) > allocation_->end()) {
    fail(FaultKind::kOutOfBounds, fmt::format("{} {} bytes outside all memory of the device",
                                              kind == Access::kRead ? "reads" : "writes", bytes));
  }
  if (!grid_->operands.empty()) check_operands(address, bytes, kind);
  note(allocation_->shadow, address, bytes, allocation_->begin, kind, false);
}

void Executor::note(ShadowWord* word, uintptr_t address, int64_t bytes, uintptr_t base, Access kind,
                    bool shared) {
  if (bytes <= 16 && address % static_cast<uintptr_t>(bytes) != 0) {
    fail(FaultKind::kMisaligned,
         fmt::format("{} bytes at an address that is {} behind a multiple of that", bytes,
                     address % static_cast<uintptr_t>(bytes)));
  }
  who_.thread = static_cast<uint16_t>(current_->index);
  who_.warp_sync = static_cast<uint16_t>(warp().passed);
  auto offset = static_cast<int64_t>(address - base);
  for (int64_t left = bytes; left > 0;) {
    const int64_t in_word = offset % kShadowWordBytes;
    const int64_t part = std::min(left, kShadowWordBytes - in_word);
    const auto mask = static_cast<uint8_t>(((1 << part) - 1) << in_word);
    int other = 0;
    const Conflict conflict =
        word[offset / kShadowWordBytes].note(who_, kind, mask, shared, &other);
    const char* what = kind == Access::kRead ? "reads" : "writes";
    const char* memory = shared ? "shared memory" : "device memory";
    switch (conflict) {
      case Conflict::kNone:
        break;
      case Conflict::kUninitialised:
        fail(FaultKind::kUninitialised,
             fmt::format("reads byte {} of shared memory, which nothing has written", offset));
      case Conflict::kThread:
        fail(FaultKind::kRace,
             fmt::format("{} byte {} of {} that thread {} uses, with no barrier between them", what,
                         offset, memory, other));
      case Conflict::kBlock:
        fail(FaultKind::kRace,
             fmt::format("{} byte {} of {} that another block uses in the same launch", what,
                         offset, memory));
    }
    offset += part;
    left -= part;
  }
}

}  // namespace plimsoll::emulation
