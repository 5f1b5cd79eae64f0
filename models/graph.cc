#include "models/graph.h"

#include "base/error.h"
#include "models/op_rule.h"

namespace plimsoll {

Graph::Graph(SaveRules save_rules, DType float_type, bool training)
    : save_rules_(save_rules), float_type_(float_type), training_(training) {}

TensorId Graph::add_tensor(Tensor tensor) {
  for (const int64_t extent : tensor.type.shape) {
    if (extent <= 0) {
      throw bad_input(fmt::format("{}: the shape {} has an extent that is not positive",
                                  tensor.name, shape_text(tensor.type.shape)));
    }
  }
  static_cast<void>(tensor.type.bytes());  // an overflow is an Error here, not in a later sum
  tensor.layer = layer_;
  tensors_.push_back(std::move(tensor));
  producers_.push_back(boost::graph_traits<OpGraph>::null_vertex());
  return static_cast<TensorId>(tensors_.size() - 1);
}

TensorId Graph::add_input(const std::string& field, TensorType type) {
  return add_tensor({.name = field,
                     .type = std::move(type),
                     .role = Role::kInput,
                     .layer = -1,
                     .op = "load_batch",
                     .input_field = field,
                     .view_of = kNoTensor,
                     .parameter = {}});
}

TensorId Graph::add_parameter(const std::string& name, Shape shape, ParameterInfo info) {
  if (info.parts.empty()) info.parts.push_back({.name = name, .rows = shape.front()});
  return add_tensor({.name = name,
                     .type = {std::move(shape), float_type_},
                     .role = Role::kParameter,
                     .layer = -1,
                     .op = "",
                     .input_field = "",
                     .view_of = kNoTensor,
                     .parameter = std::move(info)});
}

TensorId Graph::add_state(const std::string& name, Shape shape, ParameterInfo info) {
  const TensorId id = add_parameter(name, std::move(shape), std::move(info));
  tensors_.back().role = Role::kState;
  return id;
}

TensorId Graph::add_stage_input(const std::string& name, TensorType type) {
  const TensorId id = add_tensor({.name = name,
                                  .type = std::move(type),
                                  .role = Role::kActivation,
                                  .layer = -1,
                                  .op = "receive",
                                  .input_field = "",
                                  .view_of = kNoTensor,
                                  .parameter = {}});
  tensors_.back().layer = -1;  // what arrives belongs to no layer of this stage
  stage_inputs_.push_back(id);
  return id;
}

TensorId Graph::add(const std::string& kind, const std::string& name, std::vector<TensorId> inputs,
                    Attributes attributes) {
  const OpRule& rule = find_op_rule(kind);
  std::vector<TensorType> types;
  for (const TensorId id : inputs) types.push_back(id == kNoTensor ? TensorType{} : type(id));
  const std::vector<OutputSpec> specs = rule.infer({.attributes = attributes,
                                                    .inputs = types,
                                                    .save_rules = save_rules_,
                                                    .float_type = float_type_,
                                                    .statistic_type = statistic_type(),
                                                    .training = training_,
                                                    .op_name = name});
  std::vector<TensorId> outputs;
  for (const OutputSpec& spec : specs) {
    outputs.push_back(add_tensor({.name = spec.suffix.empty() ? name : name + "." + spec.suffix,
                                  .type = spec.type,
                                  .role = spec.role,
                                  .layer = -1,
                                  .op = kind,
                                  .input_field = "",
                                  .view_of = spec.view ? inputs.front() : kNoTensor,
                                  .parameter = {}}));
  }
  const OpVertex vertex = boost::add_vertex(ops_);
  for (const TensorId id : inputs) {
    if (id == kNoTensor) continue;
    const OpVertex producer = producers_[static_cast<size_t>(id)];
    if (producer != boost::graph_traits<OpGraph>::null_vertex()) {
      boost::add_edge(producer, vertex, Use{id}, ops_);
    } else if (tensors_[static_cast<size_t>(id)].op.empty()) {
      tensors_[static_cast<size_t>(id)].op = kind;  // a parameter belongs to its first user
    }
  }
  for (const TensorId id : outputs) producers_[static_cast<size_t>(id)] = vertex;
  const TensorId first = outputs.front();
  ops_[vertex] = {kind, name, std::move(attributes), std::move(inputs), std::move(outputs), layer_};
  return first;
}

void Graph::begin_layer(int layer, const std::string& block_kind) {
  PLIMSOLL_CHECK(layer == first_layer_ + num_layers(), "layer {} after {} layers from {}", layer,
                 num_layers(), first_layer_);
  layer_ = layer;
  block_kinds_.push_back(block_kind);
}

std::vector<TensorId> Graph::parameters() const {
  std::vector<TensorId> ids;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].role == Role::kParameter) ids.push_back(static_cast<TensorId>(i));
  }
  return ids;
}

std::vector<TensorId> Graph::states() const {
  std::vector<TensorId> ids;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].role == Role::kState) ids.push_back(static_cast<TensorId>(i));
  }
  return ids;
}

int64_t Graph::num_parameters() const {
  int64_t sum = 0;
  for (const TensorId id : parameters()) sum = checked_add(sum, type(id).elements());
  return sum;
}

TensorId Graph::loss() const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].role == Role::kLoss) return static_cast<TensorId>(i);
  }
  return kNoTensor;
}

}  // namespace plimsoll
