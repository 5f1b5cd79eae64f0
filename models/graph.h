// The forward graph of a model: ops are vertices, uses of tensors are edges (Boost.Graph).
//
// Ops are added in a valid execution order (an op's inputs exist before it), which is kept: memory
// depends on the order, so it is the builder's choice and never re-sorted.
#pragma once

#include "base/attributes.h"
#include "models/save_rules.h"
#include "models/tensor.h"

#include <boost/graph/adjacency_list.hpp>

#include <string>
#include <vector>

namespace plimsoll {

struct OpNode {
  std::string kind;  // name in the op registry
  std::string name;  // unique, "h.3.attn"
  Attributes attributes;
  std::vector<TensorId> inputs;   // kNoTensor for an absent operand
  std::vector<TensorId> outputs;  // regular outputs, then what forward saves for backward
  int layer = -1;
};

struct Use {
  TensorId tensor = kNoTensor;
};

using OpGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, OpNode, Use>;
using OpVertex = OpGraph::vertex_descriptor;

class Graph {
 public:
  // `training` false: ops take their inference form (no dropout, running statistics).
  Graph(SaveRules save_rules, DType float_type, bool training);

  TensorId add_input(const std::string& field, TensorType type);
  TensorId add_parameter(const std::string& name, Shape shape, ParameterInfo info);
  TensorId add_state(const std::string& name, Shape shape, ParameterInfo info);

  // States which share of the whole parameter this one is.
  void set_shard(TensorId parameter, ParameterShard shard) {
    tensors_[static_cast<size_t>(parameter)].shard = std::move(shard);
  }

  // Adds an op of a registered kind; shapes are inferred and checked by its rule (Error, exit 2,
  // naming the op, when they do not agree). Returns the first output.
  TensorId add(const std::string& kind, const std::string& name, std::vector<TensorId> inputs,
               Attributes attributes = {});

  // What arrives from the stage before this one, and what the next one is sent. Both have
  // gradients, which go the other way.
  TensorId add_stage_input(const std::string& name, TensorType type);
  void add_stage_output(TensorId id) { stage_outputs_.push_back(id); }
  [[nodiscard]] const std::vector<TensorId>& stage_inputs() const { return stage_inputs_; }
  [[nodiscard]] const std::vector<TensorId>& stage_outputs() const { return stage_outputs_; }

  // Number of the first layer that will be begun: not 0 in later pipeline stages.
  void set_first_layer(int layer) { first_layer_ = layer; }
  [[nodiscard]] int first_layer() const { return first_layer_; }

  // Ops added while a layer is set belong to that block. Blocks of one `block_kind` are equal.
  void begin_layer(int layer, const std::string& block_kind);
  void end_layer() { layer_ = -1; }

  [[nodiscard]] const Tensor& tensor(TensorId id) const {
    return tensors_[static_cast<size_t>(id)];
  }
  [[nodiscard]] const TensorType& type(TensorId id) const { return tensor(id).type; }
  [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }
  // The op that makes a tensor, null_vertex for parameters and inputs.
  [[nodiscard]] OpVertex producer(TensorId id) const { return producers_[static_cast<size_t>(id)]; }
  [[nodiscard]] const OpGraph& ops() const { return ops_; }
  [[nodiscard]] const OpNode& op(OpVertex vertex) const { return ops_[vertex]; }
  [[nodiscard]] const SaveRules& save_rules() const { return save_rules_; }
  [[nodiscard]] DType float_type() const { return float_type_; }
  // Type of means, log-sum-exps and the like: f32, or f64 in double-precision graphs.
  [[nodiscard]] DType statistic_type() const {
    return float_type_ == DType::kF64 ? DType::kF64 : DType::kF32;
  }
  [[nodiscard]] bool training() const { return training_; }
  [[nodiscard]] int num_layers() const { return static_cast<int>(block_kinds_.size()); }
  // Kind of block of each layer: equal names mark equal blocks.
  [[nodiscard]] const std::vector<std::string>& block_kinds() const { return block_kinds_; }

  // Tensors in the order of their first use; sums of elements over parameters (not states).
  [[nodiscard]] std::vector<TensorId> parameters() const;
  [[nodiscard]] std::vector<TensorId> states() const;
  [[nodiscard]] int64_t num_parameters() const;
  [[nodiscard]] TensorId loss() const;  // the tensor of role kLoss, kNoTensor when there is none

 private:
  TensorId add_tensor(Tensor tensor);

  SaveRules save_rules_;
  DType float_type_;
  bool training_;
  int layer_ = -1;
  int first_layer_ = 0;
  std::vector<TensorId> stage_inputs_, stage_outputs_;
  std::vector<std::string> block_kinds_;
  std::vector<Tensor> tensors_;
  std::vector<OpVertex> producers_;  // of each tensor, or null_vertex
  OpGraph ops_;
};

}  // namespace plimsoll
