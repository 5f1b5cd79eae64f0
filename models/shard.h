// Tensor and sequence parallelism: from the graph of a model to the graph of one rank.
//
// All ranks of a tensor-parallel group have the same graph; a kernel that must know which share is
// its own (attribute `tp`) asks the program for its place. The layouts are chosen from the ops'
// own lists (OpRule::shardings) greedily, op by op in execution order: the first way of the list
// whose operands can be had, where lists begin with the ways that divide work. An op divides the
// features of its output only when every user takes them divided, up to an op that sums them up
// again. Megatron's column-then-row pairs, and its vocabulary-parallel embedding and loss, are
// what this finds in transformers. Where layouts of a tensor and its reader differ, an op that
// converts comes between (tp_copy, tp_reduce, sp_gather, sp_scatter, sp_slice, sp_collect); a
// partial sum is reduced where it arises, so that blocks stay equal.
#pragma once

#include "models/graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll {

struct ShardOptions {
  int tp = 1;
  bool sequence_parallel = false;  // Korthikanti et al. 2022; without effect when tp is 1
};

// The graph of one of `tp` ranks; pipeline stages are cut from it (models/stage.h). Parameters have
// `shard` set (tp > 1). Throws Error (exit 2) when heads, features or tokens cannot be divided, or
// when nothing of the model can be.
[[nodiscard]] Graph shard(const Graph& whole, const ShardOptions& options);

// A part of a parameter or state that is a box of a tensor known outside; the parts of a rank lie
// one after the other along dimension 0. Padding at the end of the last rank's share has no box.
struct ParameterBox {
  std::string name;
  bool transposed = false;
  Shape global_shape;
  std::vector<int64_t> start;
  Shape extent;
};

// The boxes that rank `tp_rank` of the group holds of a parameter.
[[nodiscard]] std::vector<ParameterBox> parameter_boxes(const Tensor& parameter, int tp_rank);

}  // namespace plimsoll
