// From files of tensors into the persistent buffers of a program, and the list of these.
#pragma once

#include "executor/interpreter.h"
#include "executor/tensor_file.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace plimsoll {

// A part of a persistent buffer with a name outside, and where its bytes are.
struct PersistentPart {
  const LogicalPart* part = nullptr;
  std::string role;  // of its logical tensor
  DType dtype = DType::kF32;
  std::byte* data = nullptr;
  int64_t first = 0;  // of the box's elements, row-major, those that are at `data`
  int64_t count = 0;
};

// In the program's order. The interpreter must outlive the list.
[[nodiscard]] std::vector<PersistentPart> persistent_parts(const Interpreter& interpreter);

// Opens safetensors, or a GPT-2 model of llm.c. Throws Error (exit 2).
[[nodiscard]] std::unique_ptr<TensorFile> open_tensor_file(const std::string& path);

// Copies the part's elements to where they lie in the whole tensor (of the part's global shape).
void copy_to_whole(const PersistentPart& part, std::byte* whole);

// Fills the part's elements from the tensor of its name (also with "transformer." before it),
// transposed where the part says so and converted from f16, bf16, f32 or f64. Throws Error (exit 2)
// naming the tensor when it is missing or its shape differs.
void load_part(const PersistentPart& part, const TensorFile& file);

// Loads every part whose role is "parameter", and states that the file has.
void load_parameters(const std::vector<PersistentPart>& parts, const TensorFile& file);

}  // namespace plimsoll
