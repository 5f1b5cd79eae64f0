#include "executor/cuda/bind.h"

#include "executor/cuda/bind_tables.h"

#include <algorithm>

namespace plimsoll {
namespace {

const std::vector<CudaKernelEntry>& table() {
  static const std::vector<CudaKernelEntry> sorted = [] {
    std::vector<CudaKernelEntry> entries;
    for (const auto part :
         {cuda_transformer_kernels(), cuda_elementwise_kernels(), cuda_loss_and_update_kernels()}) {
      entries.insert(entries.end(), part.begin(), part.end());
    }
    std::sort(entries.begin(), entries.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    return entries;
  }();
  return sorted;
}

}  // namespace

KernelFunction find_cuda_kernel(std::string_view op, const Attributes& attributes) {
  if (attributes.get_int("tp", 1) > 1 || attributes.get_int("shards", 1) > 1) return nullptr;
  // A part of a tensor, or a scaled term, is what only a split plan asks for.
  const bool of_part = attributes.has("count") || attributes.get_double("scale", 1) != 1;
  if (op == "sum_squares" && of_part) return nullptr;
  const auto found =
      std::lower_bound(table().begin(), table().end(), op,
                       [](const auto& entry, auto name) { return entry.name < name; });
  return found == table().end() || found->name != op ? nullptr : found->function;
}

std::vector<std::string_view> cuda_kernel_names() {
  std::vector<std::string_view> names;
  for (const CudaKernelEntry& entry : table()) names.push_back(entry.name);
  return names;
}

}  // namespace plimsoll
