// The parts of the table in bind.cc, by theme; included by executor/cuda/bind*.cc only.
#pragma once

#include "executor/cuda/bind.h"
#include "kernels/cuda/queue.h"

#include <span>
#include <string_view>

namespace plimsoll {

struct CudaKernelEntry {
  std::string_view name;
  KernelFunction function;
};

[[nodiscard]] std::span<const CudaKernelEntry> cuda_transformer_kernels();
[[nodiscard]] std::span<const CudaKernelEntry> cuda_elementwise_kernels();
[[nodiscard]] std::span<const CudaKernelEntry> cuda_loss_and_update_kernels();

[[nodiscard]] inline float* f32(const Operand& operand) { return operand.as<float>(); }

}  // namespace plimsoll
