// The table that binds instruction names to CUDA kernels, as executor/bind.h does for the CPU's.
// Functions read KernelArgs::queue; operands and scalars are addresses on the device, and nothing
// here looks at what lies there.
#pragma once

#include "executor/bind.h"

#include <string_view>
#include <vector>

namespace plimsoll {

// Null when CUDA has no kernel for the instruction (in f32), or none for a rank's share of it:
// shares of tensor-parallel and sharded tensors are not run yet.
[[nodiscard]] KernelFunction find_cuda_kernel(std::string_view op, const Attributes& attributes);

// All bound names, sorted.
[[nodiscard]] std::vector<std::string_view> cuda_kernel_names();

}  // namespace plimsoll
