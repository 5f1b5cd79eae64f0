#include "planner/lower/replicas.h"

#include "planner/lower/zero.h"

namespace plimsoll::lowering {

bool is_expert(const Tensor& parameter) { return parameter.op == "moe_expert_linear"; }

Replicas data_replicas(const Strategy& strategy) {
  Replicas replicas;
  replicas.group = strategy.cp * strategy.ep > 1 ? "data" : "dp";
  replicas.size = strategy.num_replicas();
  replicas.shards = strategy.shard_group > 0 ? strategy.shard_group : replicas.size;
  return replicas;
}

Replicas replicas_of(const Draft& draft, TensorId parameter) {
  const Strategy& strategy = *draft.strategy;
  if (strategy.ep == 1 || !is_expert(draft.at(parameter).tensor)) return data_replicas(strategy);
  return {"dp", strategy.dp, strategy.dp};
}

DraftCall reduce_over_replicas(const Draft& draft, TensorId tensor, TensorId parameter) {
  DraftCall call = all_reduce(draft, tensor, "replica");
  call.call.attributes.set("shard_ranks", int64_t{replicas_of(draft, parameter).shards});
  touch_own_part(draft, call, parameter);
  return call;
}

}  // namespace plimsoll::lowering
