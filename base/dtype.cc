#include "base/dtype.h"

namespace plimsoll {

std::optional<DType> parse_dtype(std::string_view name) {
  if (name == "fp64") return DType::kF64;
  if (name == "fp32") return DType::kF32;
  if (name == "fp16") return DType::kF16;
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64,
                            DType::kI32, DType::kU16, DType::kU8}) {
    if (dtype_name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

}  // namespace plimsoll
