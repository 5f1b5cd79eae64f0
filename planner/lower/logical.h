// Which boxes of the model's tensors a rank's parameter is made of.
#pragma once

#include "models/tensor.h"
#include "program/program.h"

namespace plimsoll::lowering {

// Fills in parts and padding of `logical` for a rank of the tensor-parallel group; `suffix` follows
// the names.
void set_parts(LogicalTensor& logical, const Tensor& parameter, int tp_place,
               const std::string& suffix = "");

// Names "….experts.3.…" of a rank's experts, numbered from 0, become those from `first` on.
void count_experts_from(LogicalTensor& logical, int64_t first);

}  // namespace plimsoll::lowering
