// Element types of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll {

enum class DType : uint8_t { kF64, kF32, kBF16, kF16, kI64, kI32, kU16, kU8 };

// Bytes of one element.
[[nodiscard]] constexpr int64_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 8;
    case DType::kF32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kI64:
      return 8;
    case DType::kI32:
      return 4;
    case DType::kU16:
      return 2;
    case DType::kU8:
      return 1;
  }
  return 0;
}

[[nodiscard]] constexpr std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "f64";
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kI64:
      return "i64";
    case DType::kI32:
      return "i32";
    case DType::kU16:
      return "u16";
    case DType::kU8:
      return "u8";
  }
  return "?";
}

// Inverse of dtype_name; also takes "fp32", "fp16", "fp64". Empty for an unknown name.
[[nodiscard]] std::optional<DType> parse_dtype(std::string_view name);

}  // namespace plimsoll
