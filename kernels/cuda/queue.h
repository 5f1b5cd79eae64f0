// Where kernels are launched: a stream of a device, with what is counted and checked on the way.
// Needs no CUDA header, so that whoever calls kernels needs none either.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll::cuda {

// Memory that an instruction may touch. On a GPU nobody looks; the emulator does at every access.
struct OperandRange {
  const void* begin = nullptr;
  int64_t bytes = 0;
  bool writable = false;
};

using LaunchCounts = std::map<std::string, int64_t, std::less<>>;

struct Queue {
  void* stream = nullptr;  // cudaStream_t
  void* blas = nullptr;    // cublasHandle_t, bound to the stream
  LaunchCounts* counts = nullptr;
  std::span<const OperandRange> operands;  // empty: any memory of the device

  void count(std::string_view name) const {
    if (counts == nullptr) return;
    const auto found = counts->find(name);
    if (found != counts->end()) {
      ++found->second;
    } else {
      counts->emplace(name, 1);
    }
  }
};

// Throws Error (exit 4) naming the kernel and what the runtime says.
[[noreturn]] void launch_failed(std::string_view kernel, const char* reason);

}  // namespace plimsoll::cuda
