// From a forward graph to the kernel calls of forward and backward: reverse-mode differentiation by
// the ops' rules. Both lists are in execution order over one tensor table.
#pragma once

#include "models/graph.h"
#include "models/op_rule.h"

#include <vector>

namespace plimsoll {

// A gradient contribution of one use of a parameter (or of one statistic to a state).
struct ParameterGradient {
  TensorId parameter = kNoTensor;
  TensorId gradient = kNoTensor;  // role kParameterGradient
  int use = 0;                    // index among the parameter's uses, in forward order
};

struct TrainingGraph {
  std::vector<Tensor> tensors;  // the graph's tensors first, then gradients and workspace
  std::vector<KernelCall> forward;
  std::vector<KernelCall> backward;
  std::vector<KernelCall> backward_weights;  // behind `backward`; empty unless split
  std::vector<ParameterGradient> gradients;  // in order of production
  std::vector<ParameterGradient> state_gradients;
  TensorId loss = kNoTensor;
  TensorId scalars = kNoTensor;  // kNoTensor when no call reads it
  // Of a pipeline stage, in the graph's order: what arrives and the gradient to send back for it;
  // what is sent on and the gradient that arrives for it.
  struct Boundary {
    TensorId tensor = kNoTensor;
    TensorId gradient = kNoTensor;
  };
  std::vector<Boundary> stage_inputs, stage_outputs;
};

// Forward calls alone (evaluation).
[[nodiscard]] TrainingGraph forward_only(const Graph& graph);

// Forward and backward. Parameter gradients get `gradient_type`. Throws Error (exit 2) when the
// graph has no loss. `split_backward`: the products that make weights' gradients, and what is made
// for them alone, come last, in a list of their own (Qi et al. 2023, section 2.1).
[[nodiscard]] TrainingGraph differentiate(const Graph& graph, DType gradient_type,
                                          bool split_backward = false);

// Tensors made in forward that backward reads: the activations that a layer keeps. In order of
// production; views are resolved to what they view. Parameters and inputs are left out.
[[nodiscard]] std::vector<TensorId> saved_tensors(const TrainingGraph& graph);

}  // namespace plimsoll
