#include "models/stage.h"

#include "base/error.h"

#include <algorithm>
#include <map>
#include <set>

namespace plimsoll {

namespace {

// The stage of every op, in the graph's order.
std::vector<int> stages_of_ops(const Graph& graph, const StageBounds& bounds) {
  const int last = static_cast<int>(bounds.size()) - 2;
  std::vector<int> stages;
  bool in_layers = false;
  for (const OpVertex vertex : boost::make_iterator_range(boost::vertices(graph.ops()))) {
    const int layer = graph.op(vertex).layer;
    if (layer < 0) {
      stages.push_back(in_layers ? last : 0);
      continue;
    }
    in_layers = true;
    const auto after = std::upper_bound(bounds.begin(), bounds.end(), layer);
    stages.push_back(static_cast<int>(after - bounds.begin()) - 1);
  }
  return stages;
}

class StageCut {
 public:
  StageCut(const Graph& graph, const StageBounds& bounds, int stage)
      : whole_(graph),
        stages_(stages_of_ops(graph, bounds)),
        stage_(stage),
        part_(graph.save_rules(), graph.float_type(), graph.training()) {
    part_.set_first_layer(bounds[static_cast<size_t>(stage)]);
    made_in_.assign(graph.tensors().size(), -1);
    for (const OpVertex v : boost::make_iterator_range(boost::vertices(graph.ops()))) {
      for (const TensorId id : graph.op(v).outputs) made_in_[static_cast<size_t>(id)] = stages_[v];
    }
  }

  Graph run() {
    int layer = -1;
    for (const OpVertex v : boost::make_iterator_range(boost::vertices(whole_.ops()))) {
      if (stages_[v] != stage_) continue;
      const OpNode& node = whole_.op(v);
      if (node.layer != layer) {
        layer = node.layer;
        if (layer >= 0) {
          part_.begin_layer(
              layer, whole_.block_kinds()[static_cast<size_t>(layer - whole_.first_layer())]);
        } else {
          part_.end_layer();
        }
      }
      add(node);
    }
    part_.end_layer();
    mark_outputs();
    return std::move(part_);
  }

 private:
  void add(const OpNode& node) {
    std::vector<TensorId> inputs;
    for (const TensorId id : node.inputs) inputs.push_back(id == kNoTensor ? id : local(id));
    TensorId made = part_.add(node.kind, node.name, std::move(inputs), node.attributes);
    for (const TensorId id : node.outputs) local_[id] = made++;
  }

  TensorId local(TensorId id) {
    if (const auto at = local_.find(id); at != local_.end()) return at->second;
    const Tensor& tensor = whole_.tensor(id);
    TensorId made = kNoTensor;
    switch (tensor.role) {
      case Role::kParameter:
        made = part_.add_parameter(tensor.name, tensor.type.shape, *tensor.parameter);
        break;
      case Role::kState:
        made = part_.add_state(tensor.name, tensor.type.shape, *tensor.parameter);
        break;
      case Role::kInput:
        made = part_.add_input(tensor.input_field, tensor.type);
        break;
      default:
        PLIMSOLL_CHECK(made_in_[static_cast<size_t>(id)] < stage_, "{} comes from a later stage",
                       tensor.name);
        made = part_.add_stage_input(tensor.name, tensor.type);
        break;
    }
    if (tensor.shard) part_.set_shard(made, *tensor.shard);
    local_[id] = made;
    return made;
  }

  void mark_outputs() {
    std::set<TensorId> outputs;
    for (const OpVertex v : boost::make_iterator_range(boost::vertices(whole_.ops()))) {
      if (stages_[v] <= stage_) continue;
      for (const TensorId id : whole_.op(v).inputs) {
        if (id != kNoTensor && made_in_[static_cast<size_t>(id)] == stage_) outputs.insert(id);
        PLIMSOLL_CHECK(id == kNoTensor || made_in_[static_cast<size_t>(id)] < 0 ||
                           made_in_[static_cast<size_t>(id)] >= stages_[v] - 1,
                       "{} skips a stage", whole_.tensor(id).name);
      }
    }
    for (const TensorId id : outputs) part_.add_stage_output(local_.at(id));
  }

  const Graph& whole_;
  std::vector<int> stages_;
  int stage_;
  Graph part_;
  std::vector<int> made_in_;
  std::map<TensorId, TensorId> local_;
};

}  // namespace

StageBounds even_stages(int num_layers, int num_stages) {
  if (num_stages < 1 || num_layers < num_stages) {
    throw bad_input(fmt::format("{} layers cannot be cut into {} stages", num_layers, num_stages),
                    "use a smaller --pp");
  }
  StageBounds bounds;
  for (int stage = 0; stage <= num_stages; ++stage) {
    bounds.push_back(static_cast<int>(int64_t{num_layers} * stage / num_stages));
  }
  return bounds;
}

Graph take_stage(const Graph& graph, const StageBounds& bounds, int stage) {
  PLIMSOLL_CHECK(bounds.size() >= 2 && bounds.back() == graph.num_layers(),
                 "bounds end at {} of {} layers", bounds.back(), graph.num_layers());
  return StageCut(graph, bounds, stage).run();
}

std::vector<std::string> shared_parameters(const Graph& graph, const StageBounds& bounds) {
  const std::vector<int> stages = stages_of_ops(graph, bounds);
  std::map<TensorId, std::set<int>> users;
  for (const OpVertex v : boost::make_iterator_range(boost::vertices(graph.ops()))) {
    for (const TensorId id : graph.op(v).inputs) {
      if (id != kNoTensor && graph.tensor(id).role == Role::kParameter) users[id].insert(stages[v]);
    }
  }
  std::vector<std::string> names;
  for (const auto& [id, of_stages] : users) {
    if (of_stages.size() > 1) names.push_back(graph.tensor(id).name);
  }
  return names;
}

}  // namespace plimsoll
