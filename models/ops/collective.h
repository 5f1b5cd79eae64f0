// What the ops that exchange data within the tensor-parallel group share. Those along a dimension
// have attributes `tp` (ranks of the group) and `dimension`.
#pragma once

#include "models/op_rule.h"

namespace plimsoll {

// A call `all_reduce` over the group; the caller writes what continues in `buffer`.
[[nodiscard]] CallBuilder all_reduce(EmitContext& context, TensorId buffer);

// A call along the op's dimension within the group.
[[nodiscard]] CallBuilder exchange(EmitContext& context, const std::string& kernel);

// The type of all ranks' parts together, and of this rank's part.
[[nodiscard]] TensorType gathered_type(const InferContext& context);
[[nodiscard]] TensorType scattered_type(const InferContext& context);

// The loss from the reduced largest logit and sums of each row, into outputs 0 to 2.
void emit_vocab_loss(EmitContext& context, TensorId targets, TensorId row_max, TensorId sums);

}  // namespace plimsoll
