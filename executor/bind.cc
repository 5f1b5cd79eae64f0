#include "executor/bind.h"

#include "executor/bind_tables.h"

#include <algorithm>

namespace plimsoll {
namespace {

// All entries, sorted by name; built once.
const std::vector<KernelEntry>& kernel_table() {
  static const std::vector<KernelEntry> table = [] {
    std::vector<KernelEntry> entries;
    for (const auto part : {transformer_kernels(), elementwise_kernels(), vision_kernels(),
                            loss_kernels(), vocab_kernels(), update_kernels()}) {
      entries.insert(entries.end(), part.begin(), part.end());
    }
    std::sort(entries.begin(), entries.end(),
              [](const KernelEntry& a, const KernelEntry& b) { return a.name < b.name; });
    return entries;
  }();
  return table;
}

}  // namespace

KernelFunction find_kernel(std::string_view op, DType dtype) {
  const auto& table = kernel_table();
  const auto found = std::lower_bound(
      table.begin(), table.end(), op,
      [](const KernelEntry& entry, std::string_view name) { return entry.name < name; });
  if (found == table.end() || found->name != op) return nullptr;
  if (dtype == DType::kF32) return found->f32;
  if (dtype == DType::kF64) return found->f64;
  return nullptr;
}

std::vector<std::string_view> kernel_names() {
  std::vector<std::string_view> names;
  for (const KernelEntry& entry : kernel_table()) names.push_back(entry.name);
  return names;
}

}  // namespace plimsoll
