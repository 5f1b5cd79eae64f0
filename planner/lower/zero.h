// ZeRO (Rajbhandari et al. 2020): optimizer states (1), gradients (2) and parameters (3) are
// sharded over the data-parallel ranks (planner/lower/replicas.h).
//
// A tensor of n elements is seen as a flat list and cut into shards of ceil(n / shards) elements;
// the ranks' parts of the tensor are those shards without what lies past its end, so the last ones
// may be shorter or empty. A buffer that holds a shard has ceil(n / shards) elements on every rank,
// zeros where the tensor has none. Whole tensors are never padded: collectives take uneven parts.
#pragma once

#include "planner/lower/draft.h"

namespace plimsoll::lowering {

// [ceil(elements / shards)] of a tensor of `parameter`'s size.
[[nodiscard]] Shape shard_shape(const Draft& draft, TensorId parameter, const TensorType& type);

// Sums `whole` over the data-parallel ranks and leaves this rank's part, in `shard`, or in place of
// `whole` (whose other parts are then undefined) when `whole` is kNoTensor and `shard` is it.
// Over the ranks that share `parameter`.
[[nodiscard]] DraftCall reduce_scatter(const Draft& draft, TensorId whole, TensorId shard,
                                       TensorId parameter);

// Every rank's part of `whole`, from `shard`, or from `whole` itself when `shard` is kNoTensor.
[[nodiscard]] DraftCall all_gather(const Draft& draft, TensorId shard, TensorId whole,
                                   TensorId parameter, Pass pass);

// The call works on this rank's part of operands of `parameter`'s size; cost is that of the part.
void touch_own_part(const Draft& draft, DraftCall& call, TensorId parameter);

}  // namespace plimsoll::lowering
