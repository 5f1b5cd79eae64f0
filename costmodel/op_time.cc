#include "costmodel/op_time.h"

#include <algorithm>
#include <optional>

namespace plimsoll {

namespace {

std::optional<DType> first_float(const StepProgram& program, const std::vector<int>& operands) {
  for (const int operand : operands) {
    if (operand == kNoBuffer) continue;
    const DType dtype = program.buffers[static_cast<size_t>(operand)].dtype;
    switch (dtype) {
      case DType::kF64:
      case DType::kF32:
      case DType::kBF16:
      case DType::kF16:
        return dtype;
      case DType::kI64:
      case DType::kI32:
      case DType::kU16:
      case DType::kU8:
        break;
    }
  }
  return std::nullopt;
}

}  // namespace

double RooflineTime::op_seconds(const Instruction& instruction, const Hardware& hardware,
                                DType float_type) const {
  const double arithmetic =
      instruction.flops > 0
          ? instruction.flops / (peak_flops(hardware, float_type) * hardware.matmul_efficiency)
          : 0;
  const double traffic =
      instruction.bytes_moved / (hardware.memory_bytes_per_second * hardware.memory_efficiency);
  return hardware.launch_seconds + std::max(arithmetic, traffic);
}

DType float_type_of(const StepProgram& program, const Instruction& instruction) {
  if (const auto dtype = first_float(program, instruction.inputs)) return *dtype;
  return first_float(program, instruction.outputs).value_or(DType::kF32);
}

}  // namespace plimsoll
