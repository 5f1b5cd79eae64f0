// The one table that binds instruction names to kernels.
//
// A kernel function decodes the operands of one instruction (docs/ops.md has their order) and calls
// the typed kernel in kernels/cpu. It must not allocate and must not depend on the number of
// threads.
#pragma once

#include "base/attributes.h"
#include "base/dtype.h"
#include "base/shape.h"
#include "kernels/cpu/thread_pool.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace plimsoll::cuda {
struct Queue;
}

namespace plimsoll {

struct Operand {
  void* data = nullptr;  // null for an absent operand
  DType dtype = DType::kF32;
  const Shape* shape = nullptr;

  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data);
  }
  [[nodiscard]] bool present() const { return data != nullptr; }
  [[nodiscard]] int64_t extent(size_t dimension) const { return (*shape)[dimension]; }
  [[nodiscard]] int64_t last() const { return shape->back(); }
  [[nodiscard]] int64_t size() const { return num_elements(*shape); }
  // Product of all extents but the last.
  [[nodiscard]] int64_t rows() const { return size() / last(); }
};

struct KernelArgs {
  std::span<const Operand> in;
  std::span<const Operand> out;
  uint32_t accumulate = 0;  // bit k: add to (or update in place) output k
  const Attributes* attributes = nullptr;
  const double* scalars = nullptr;  // the scalars buffer (program/program.h), for dropout's RNG
  int64_t first_sample = 0;         // global index of this micro-batch's first sample in the step
  int dp_place = 0, tp_place = 0;   // of this rank in its groups, for kernels on shares
  ThreadPool* pool = nullptr;       // of CPU kernels
  const cuda::Queue* queue = nullptr;  // of CUDA kernels, whose operands lie on the device

  [[nodiscard]] bool accumulates(int output) const { return ((accumulate >> output) & 1U) != 0; }
};

using KernelFunction = void (*)(const KernelArgs&);

// The kernel for an instruction whose float type is `dtype` (f32 or f64; ops without float operands
// ignore it), or null when there is none.
[[nodiscard]] KernelFunction find_kernel(std::string_view op, DType dtype);

// All bound names, sorted: what a program that is to be run may use.
[[nodiscard]] std::vector<std::string_view> kernel_names();

}  // namespace plimsoll
