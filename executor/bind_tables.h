// The parts of the table in bind.cc, by theme; included by bind*.cc only.
#pragma once

#include "executor/bind.h"

#include <span>
#include <string_view>

namespace plimsoll {

struct KernelEntry {
  std::string_view name;
  KernelFunction f32;
  KernelFunction f64;
};

[[nodiscard]] std::span<const KernelEntry> transformer_kernels();
[[nodiscard]] std::span<const KernelEntry> elementwise_kernels();
[[nodiscard]] std::span<const KernelEntry> vision_kernels();
[[nodiscard]] std::span<const KernelEntry> loss_kernels();
[[nodiscard]] std::span<const KernelEntry> vocab_kernels();
[[nodiscard]] std::span<const KernelEntry> update_kernels();

}  // namespace plimsoll

// An entry of a function template over the float type.
#define PLIMSOLL_KERNEL(name, function) \
  { name, function<float>, function<double> }
