// Sizes and costs of a language model's head that goes through its logits in chunks of rows:
// operands x [R, C], w [V, C]; V is this rank's part where the vocabulary is divided.
#pragma once

#include "models/op_rule.h"
#include "models/ops/rooms.h"

namespace plimsoll::chunked_head {

inline TensorType chunk_of_logits(const EmitContext& c) {
  const int64_t rows = ceil_div(c.input_type(0).rows(), c.op().attributes.get_int("chunks"));
  return {{rows, c.input_type(1).shape[0]}, c.input_type(0).dtype};
}
inline double logits_elements(const EmitContext& c) {
  return static_cast<double>(c.input_type(0).rows()) *
         static_cast<double>(c.input_type(1).shape[0]);
}
inline double product_flops(const EmitContext& c) {
  return 2.0 * logits_elements(c) * static_cast<double>(c.input_type(0).last());
}
// Each chunk reads the weight (backward: also reads and writes its gradient) and goes through its
// logits twice; x is read (and dx written) once.
inline double bytes(const EmitContext& c, const TensorType& logits, double weight_passes) {
  const double chunks = static_cast<double>(c.op().attributes.get_int("chunks"));
  return 2.0 * static_cast<double>(c.input_type(0).bytes()) +
         chunks * (weight_passes * static_cast<double>(c.input_type(1).bytes()) +
                   2.0 * static_cast<double>(logits.bytes()));
}

}  // namespace plimsoll::chunked_head
