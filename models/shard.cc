#include "models/shard.h"

#include "base/error.h"
#include "models/op_rule.h"

#include <algorithm>
#include <map>
#include <utility>

namespace plimsoll {

namespace {

// Decides how each op is divided and how each tensor lies.
class LayoutChoice {
 public:
  LayoutChoice(const Graph& whole, const ShardOptions& options)
      : graph_(whole),
        options_(options),
        layouts_(whole.tensors().size()),
        decided_(whole.tensors().size()) {
    list_ways();
    for (const OpVertex v : boost::make_iterator_range(boost::vertices(graph_.ops()))) choose(v);
  }

  [[nodiscard]] const Sharding& of(OpVertex vertex) const { return *chosen_[vertex]; }
  // Of a parameter, or of an activation as its users find it.
  [[nodiscard]] const Layout& of(TensorId tensor) const {
    return layouts_[static_cast<size_t>(tensor)];
  }
  [[nodiscard]] bool divides_anything() const { return divides_; }

  // Where a partial sum goes when it is reduced.
  [[nodiscard]] Layout reduced(TensorId tensor) const {
    return options_.sequence_parallel && graph_.type(tensor).shape.size() == 3
               ? Layout::sharded(kSequenceDimension)
               : Layout::replicated();
  }

 private:
  [[nodiscard]] bool is_parameter(TensorId id) const {
    const Role role = graph_.tensor(id).role;
    return role == Role::kParameter || role == Role::kState;
  }

  // The ways of every op, from the last to the first: whether an op may divide its output's
  // features depends on those that follow.
  void list_ways() {
    const size_t count = boost::num_vertices(graph_.ops());
    ways_.resize(count);
    chosen_.resize(count);
    std::vector<std::optional<Layout>> wanted(graph_.tensors().size());
    std::vector<bool> refused(graph_.tensors().size());
    std::vector<TensorType> types;
    for (size_t v = count; v-- > 0;) {
      const OpNode& op = graph_.op(v);
      const auto out = static_cast<size_t>(op.outputs.front());
      if (refused[out]) wanted[out].reset();
      types.clear();
      for (const TensorId id : op.inputs) {
        types.push_back(id == kNoTensor ? TensorType{} : graph_.type(id));
      }
      ways_[v] = find_op_rule(op.kind).shardings({.attributes = op.attributes,
                                                  .inputs = types,
                                                  .num_outputs = op.outputs.size(),
                                                  .tp = options_.tp,
                                                  .sequence = options_.sequence_parallel,
                                                  .wanted = wanted[out],
                                                  .op_name = op.name});
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        if (op.inputs[i] == kNoTensor) continue;
        const auto in = static_cast<size_t>(op.inputs[i]);
        const Layout* layout = divided_input(ways_[v], i, static_cast<int>(types[i].shape.size()));
        if (layout == nullptr || (wanted[in] && *wanted[in] != *layout)) {
          refused[in] = true;
        } else {
          wanted[in] = *layout;
        }
      }
    }
  }

  // The first way that takes input i sharded along its last dimension.
  static const Layout* divided_input(const std::vector<Sharding>& ways, size_t i, int rank) {
    for (const Sharding& way : ways) {
      if (way.inputs[i].is_sharded(rank - 1)) return &way.inputs[i];
    }
    return nullptr;
  }

  void choose(OpVertex v) {
    const OpNode& op = graph_.op(v);
    const auto way = std::find_if(ways_[v].begin(), ways_[v].end(),
                                  [&](const Sharding& each) { return possible(op, each); });
    PLIMSOLL_CHECK(way != ways_[v].end(), "{} has no way to be sharded", op.name);
    chosen_[v] = &*way;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const TensorId id = op.inputs[i];
      if (id == kNoTensor || !is_parameter(id)) continue;
      Layout layout = way->inputs[i];
      if (static_cast<int>(i) == way->added_after) {
        layout = reduced(op.outputs[0]).kind == Layout::Kind::kSharded ? Layout::copied() : layout;
      }
      decide(id, layout);
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const Layout& layout = way->outputs[i];
      layouts_[static_cast<size_t>(op.outputs[i])] =
          layout.kind == Layout::Kind::kPartial ? reduced(op.outputs[i]) : layout;
      divides_ = divides_ || layout.kind != Layout::Kind::kReplicated;
    }
  }

  void decide(TensorId parameter, const Layout& layout) {
    layouts_[static_cast<size_t>(parameter)] = layout;
    decided_[static_cast<size_t>(parameter)] = true;
  }

  [[nodiscard]] bool possible(const OpNode& op, const Sharding& way) const {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const TensorId id = op.inputs[i];
      if (id == kNoTensor) continue;
      const Layout& have = of(id);
      const Layout& want = way.inputs[i];
      if (is_parameter(id)) {
        if (decided_[static_cast<size_t>(id)] && have != want) return false;
      } else if (!convertible(graph_.type(id), have, want)) {
        return false;
      }
    }
    return true;
  }

  // Whole tensors and, where there is a sequence, its shards become one another.
  static bool convertible(const TensorType& type, const Layout& have, const Layout& want) {
    if (have == want) return true;
    const auto whole_or_sequence = [&](const Layout& layout) {
      return layout.kind != Layout::Kind::kSharded ||
             (layout == Layout::sharded(kSequenceDimension) && type.shape.size() == 3);
    };
    return whole_or_sequence(have) && whole_or_sequence(want);
  }

  const Graph& graph_;
  const ShardOptions& options_;
  std::vector<Layout> layouts_;
  std::vector<std::vector<Sharding>> ways_;
  std::vector<const Sharding*> chosen_;
  std::vector<bool> decided_;  // parameters whose layout an earlier op has set
  bool divides_ = false;
};

// Builds the rank's graph, tensor by tensor in the order of the whole one.
class LocalGraph {
 public:
  LocalGraph(const Graph& whole, const ShardOptions& options)
      : whole_(whole),
        options_(options),
        choice_(whole, options),
        local_(whole.save_rules(), whole.float_type(), whole.training()),
        ids_(whole.tensors().size(), kNoTensor) {}

  Graph build() {
    if (!choice_.divides_anything()) {
      throw bad_input(fmt::format("nothing of the model can be divided over {} tensor-parallel "
                                  "ranks",
                                  options_.tp),
                      "use --tp 1");
    }
    for (size_t i = 0; i < whole_.tensors().size(); ++i) {
      const auto id = static_cast<TensorId>(i);
      if (ids_[i] != kNoTensor) continue;  // a further output of an op that is done
      const OpVertex vertex = whole_.producer(id);
      if (vertex != boost::graph_traits<OpGraph>::null_vertex()) {
        add_op(vertex);
      } else {
        enter_layer(whole_.tensor(id).layer);
        ids_[i] = add_leaf(whole_.tensor(id), choice_.of(id));
      }
    }
    return std::move(local_);
  }

 private:
  void enter_layer(int layer) {
    if (layer == layer_) return;
    layer_ = layer;
    converted_.clear();
    if (layer < 0) {
      local_.end_layer();
    } else {
      local_.begin_layer(layer, whole_.block_kinds()[static_cast<size_t>(layer)]);
    }
  }

  TensorId add_leaf(const Tensor& tensor, const Layout& layout) {
    if (tensor.role == Role::kInput) return local_.add_input(tensor.input_field, tensor.type);
    ParameterShard shard{.tp = options_.tp,
                         .dimension = -1,
                         .ranges = {},
                         .partial_gradient = layout.kind == Layout::Kind::kCopied};
    Shape shape = tensor.type.shape;
    if (layout.kind == Layout::Kind::kSharded) {
      shard.dimension = layout.dimension;
      int64_t& extent = shape[static_cast<size_t>(layout.dimension)];
      std::vector<ShardSegment> segments = layout.segments;
      if (segments.empty()) segments.push_back({.extent = extent, .pieces = extent, .of = "rows"});
      extent = 0;
      for (const ShardSegment& segment : segments) {
        shard.ranges.push_back(divide(segment, options_.tp, layout.padded, tensor.name));
        extent += shard.ranges.back().local;
      }
    }
    const TensorId id =
        tensor.role == Role::kState
            ? local_.add_state(tensor.name, std::move(shape), *tensor.parameter)
            : local_.add_parameter(tensor.name, std::move(shape), *tensor.parameter);
    local_.set_shard(id, std::move(shard));
    return id;
  }

  void add_op(OpVertex vertex) {
    const OpNode& op = whole_.op(vertex);
    const Sharding& way = choice_.of(vertex);
    enter_layer(op.layer);
    std::vector<TensorId> inputs;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const bool left_out = op.inputs[i] == kNoTensor || static_cast<int>(i) == way.added_after;
      inputs.push_back(left_out ? kNoTensor : operand(op.inputs[i], way.inputs[i]));
    }
    Attributes attributes = op.attributes;
    for (const auto& [name, value] : way.attributes.entries()) attributes.set(name, value);
    TensorId first = local_.add(way.local_kind.empty() ? op.kind : way.local_kind, op.name,
                                std::move(inputs), std::move(attributes));
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      ids_[static_cast<size_t>(op.outputs[i])] = first + static_cast<TensorId>(i);
    }
    if (way.outputs[0].kind == Layout::Kind::kPartial) {
      const TensorId out = op.outputs[0];
      first = choice_.of(out).kind == Layout::Kind::kSharded
                  ? along_sequence("sp_scatter", op.name + ".reduce_scatter", first)
                  : local_.add("tp_reduce", op.name + ".reduce", {first});
      ids_[static_cast<size_t>(out)] = first;
    }
    if (way.added_after >= 0) {
      const TensorId bias = op.inputs[static_cast<size_t>(way.added_after)];
      ids_[static_cast<size_t>(op.outputs[0])] =
          local_.add("bias_add", op.name + ".bias_add", {first, ids_[static_cast<size_t>(bias)]});
    }
  }

  // The tensor as the reader needs it. Readers in one block share a conversion.
  TensorId operand(TensorId of, const Layout& want) {
    const Tensor& tensor = whole_.tensor(of);
    const TensorId id = ids_[static_cast<size_t>(of)];
    const Layout& have = choice_.of(of);
    if (have == want || tensor.role == Role::kParameter || tensor.role == Role::kState) return id;
    // What leads to no parameter has no gradient to sum.
    if (tensor.role == Role::kInput && have.kind == Layout::Kind::kReplicated &&
        want.kind == Layout::Kind::kCopied) {
      return id;
    }
    const auto [at, is_new] = converted_.try_emplace({of, want.kind}, kNoTensor);
    if (is_new) at->second = convert(tensor.name, id, have, want);
    return at->second;
  }

  TensorId convert(const std::string& name, TensorId id, const Layout& have, const Layout& want) {
    if (have.kind == Layout::Kind::kSharded) {
      return want.kind == Layout::Kind::kCopied
                 ? along_sequence("sp_gather", name + ".gathered", id)
                 : along_sequence("sp_collect", name + ".collected", id);
    }
    return want.kind == Layout::Kind::kSharded ? along_sequence("sp_slice", name + ".part", id)
                                               : local_.add("tp_copy", name + ".copied", {id});
  }

  TensorId along_sequence(const std::string& kind, const std::string& name, TensorId id) {
    return local_.add(kind, name, {id},
                      {{"tp", int64_t{options_.tp}}, {"dimension", int64_t{kSequenceDimension}}});
  }

  const Graph& whole_;
  const ShardOptions& options_;
  LayoutChoice choice_;
  Graph local_;
  std::vector<TensorId> ids_;  // of the whole graph's tensors in the local one
  std::map<std::pair<TensorId, Layout::Kind>, TensorId> converted_;
  int layer_ = -1;
};

}  // namespace

Graph shard(const Graph& whole, const ShardOptions& options) {
  if (options.tp < 1) {
    throw bad_input(
        fmt::format("{} tensor-parallel ranks: there must be at least one", options.tp));
  }
  PLIMSOLL_CHECK(whole.stage_inputs().empty() && whole.stage_outputs().empty(),
                 "a model is sharded before it is cut into stages");
  if (options.tp == 1) return whole;
  return LocalGraph(whole, options).build();
}

namespace {

// The box of `part` that begins at row `first` of the part, `rows` long.
ParameterBox box_of(const ParameterPart& part, const Shape& whole, int64_t first, int64_t rows) {
  ParameterBox box{part.name, part.transposed, whole, std::vector<int64_t>(whole.size(), 0), whole};
  box.global_shape.front() = part.rows;
  box.start.front() = first;
  box.extent.front() = rows;
  return box;
}

}  // namespace

std::vector<ParameterBox> parameter_boxes(const Tensor& parameter, int tp_rank) {
  PLIMSOLL_CHECK(parameter.parameter.has_value(), "{} is not a parameter", parameter.name);
  const std::vector<ParameterPart>& parts = parameter.parameter->parts;
  Shape whole = parameter.type.shape;
  std::vector<ParameterBox> boxes;
  if (!parameter.shard || parameter.shard->dimension != 0) {
    for (const ParameterPart& part : parts) boxes.push_back(box_of(part, whole, 0, part.rows));
    if (!parameter.shard || parameter.shard->dimension < 0) return boxes;
    const ParameterShard& shard = *parameter.shard;
    const auto d = static_cast<size_t>(shard.dimension);
    PLIMSOLL_CHECK(shard.ranges.size() == 1, "{} has several ranges along dimension {}",
                   parameter.name, d);
    for (ParameterBox& box : boxes) {
      box.global_shape[d] = shard.ranges[0].extent;
      box.start[d] = tp_rank / shard.ranges[0].copies * shard.ranges[0].local;
      box.extent[d] = shard.ranges[0].local;
    }
    return boxes;
  }
  int64_t range_begin = 0;
  for (const ShardedRange& range : parameter.shard->ranges) {
    const int64_t begin =
        range_begin + std::min(range.extent, tp_rank / range.copies * range.local);
    const int64_t end = std::min(begin + range.local, range_begin + range.extent);
    int64_t part_begin = 0;
    for (const ParameterPart& part : parts) {
      const int64_t from = std::max(begin, part_begin);
      const int64_t to = std::min(end, part_begin + part.rows);
      if (from < to) boxes.push_back(box_of(part, whole, from - part_begin, to - from));
      part_begin += part.rows;
    }
    range_begin += range.extent;
  }
  return boxes;
}

}  // namespace plimsoll
