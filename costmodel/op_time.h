// How long one instruction takes on one device, apart from communication.
#pragma once

#include "base/dtype.h"
#include "costmodel/hardware.h"
#include "program/program.h"

namespace plimsoll {

// Times one call on an otherwise idle device, in seconds. Collectives have a model of their own.
class OpTimeModel {
 public:
  virtual ~OpTimeModel() = default;
  [[nodiscard]] virtual double op_seconds(const Instruction& instruction, const Hardware& hardware,
                                          DType float_type) const = 0;
};

// Roofline (Williams, Waterman, Patterson 2009): the slower of arithmetic and memory traffic, each
// at its attainable rate, after the gap of a launch:
//     launch + max(flops / (peak * matmul_efficiency), bytes / (bandwidth * memory_efficiency))
class RooflineTime final : public OpTimeModel {
 public:
  [[nodiscard]] double op_seconds(const Instruction& instruction, const Hardware& hardware,
                                  DType float_type) const override;
};

// The type that an instruction computes in: its first float operand's, f32 when it has none.
[[nodiscard]] DType float_type_of(const StepProgram& program, const Instruction& instruction);

}  // namespace plimsoll
