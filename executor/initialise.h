// First values of persistent buffers: a function of (seed, tensor name, global index), so that no
// plan changes them.
#pragma once

#include "executor/bind.h"
#include "program/program.h"

#include <cstdint>

namespace plimsoll {

// Fills `out` (f32 or f64), the buffer of `tensor`. A draw for element i of the whole tensor is
// keyed by (seed, "init:" + name of the part, i). `dp_place` says which shard of a tensor that has
// several the buffer is; padding is zero. Throws Error (exit 2) for another dtype.
void initialise_buffer(const LogicalTensor& tensor, const Operand& out, uint64_t seed,
                       ThreadPool& pool, int dp_place = 0);

}  // namespace plimsoll
