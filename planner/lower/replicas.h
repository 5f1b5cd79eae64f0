// Which ranks hold a parameter alike, and how ZeRO divides what they keep of it.
//
// Ranks are numbered tp, cp, ep, dp, pp with tp fastest. Every parameter but the experts' is the
// same on all ranks of a stage with the same place in the tensor-parallel group: group "data", of
// cp * ep * dp ranks (called "dp" where cp and ep are 1). Experts are divided over ep and the same
// over dp: group "dp". With a shard group of s ranks (hybrid sharding), states are divided over s
// neighbours in the group (group "shard") and the same on every s-th one (group "replica").
#pragma once

#include "planner/lower/draft.h"

#include <string>

namespace plimsoll::lowering {

struct Replicas {
  std::string group;  // "dp" or "data"
  int size = 1;       // ranks of the group
  int shards = 1;     // over how many of them ZeRO divides states
  [[nodiscard]] bool is_hybrid() const { return shards > 1 && shards < size; }
};

// Of all parameters but the experts', and of the loss.
[[nodiscard]] Replicas data_replicas(const Strategy& strategy);
[[nodiscard]] Replicas replicas_of(const Draft& draft, TensorId parameter);
// The parameter belongs to experts that other ranks do not have.
[[nodiscard]] bool is_expert(const Tensor& parameter);

// Sums what ZeRO's shards of `tensor` hold over the groups that hold the same ones; of a whole
// tensor, this rank's part alone. Precondition: is_hybrid().
[[nodiscard]] DraftCall reduce_over_replicas(const Draft& draft, TensorId tensor,
                                             TensorId parameter);

}  // namespace plimsoll::lowering
