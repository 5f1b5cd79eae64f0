#include "models/autodiff.h"

#include "base/error.h"

#include <algorithm>
#include <set>
#include <utility>

namespace plimsoll {

namespace {

// Walks the graph once forward and once backward, collecting calls and tensors.
class Differentiator final : public BackwardContext {
 public:
  Differentiator(const Graph& graph, DType gradient_type)
      : graph_(graph), gradient_type_(gradient_type) {
    result_.tensors = graph.tensors();
    result_.loss = graph.loss();
    gradients_.assign(graph.tensors().size(), kNoTensor);
    uses_.assign(graph.tensors().size(), 0);
  }

  void run_forward() {
    calls_ = &result_.forward;
    for (const OpVertex vertex : boost::make_iterator_range(boost::vertices(graph_.ops()))) {
      op_ = &graph_.op(vertex);
      find_op_rule(op_->kind).forward(*this);
    }
  }

  void run_backward(bool split) {
    PLIMSOLL_CHECK(graph_.training(), "a graph in inference form cannot be differentiated");
    if (result_.loss == kNoTensor && graph_.stage_outputs().empty()) {
      throw bad_input("the model has no loss: it cannot be trained");
    }
    mark_needed();
    number_uses();
    receive_gradients();
    calls_ = &result_.backward;
    const auto count = static_cast<int64_t>(boost::num_vertices(graph_.ops()));
    for (int64_t v = count - 1; v >= 0; --v) {
      op_ = &graph_.op(static_cast<OpVertex>(v));
      vertex_ = static_cast<size_t>(v);
      if (!needs_backward(*op_)) continue;
      find_op_rule(op_->kind).backward(*this);
    }
    if (split) put_weights_last();
    separate_accumulators();
    if (split) take_weights();
    for (const TensorId id : graph_.stage_inputs()) {
      result_.stage_inputs.push_back({id, gradients_[static_cast<size_t>(id)]});
    }
  }

  TrainingGraph take() { return std::move(result_); }

  // EmitContext
  [[nodiscard]] const OpNode& op() const override { return *op_; }
  [[nodiscard]] const Graph& graph() const override { return graph_; }
  [[nodiscard]] const TensorType& type_of(TensorId id) const override {
    return result_.tensors[static_cast<size_t>(id)].type;
  }
  TensorId make_workspace(TensorType type) override {
    return add_tensor(op_->name + ".workspace", std::move(type), Role::kWorkspace);
  }
  TensorId make_state_gradient(size_t input_index, TensorType type) override {
    const TensorId state = op_->inputs[input_index];
    const TensorId id = add_tensor(graph_.tensor(state).name + ".contribution", std::move(type),
                                   Role::kParameterGradient);
    result_.state_gradients.push_back({state, id, 0});
    return id;
  }
  void emit(KernelCall call) override {
    if (calls_ == &result_.backward) {
      for (TensorId& id : call.inputs) id = made_again(id);
    }
    calls_->push_back(std::move(call));
    // Gradients that the kernel could not add to an earlier one are added now.
    for (const auto& [tensor, previous, made] : std::exchange(pending_sums_, {})) {
      gradients_[static_cast<size_t>(tensor)] = emit_sum(tensor, previous, made);
    }
  }

  // BackwardContext
  [[nodiscard]] TensorId gradient(size_t output_index) const override {
    return gradients_[static_cast<size_t>(op_->outputs[output_index])];
  }
  [[nodiscard]] bool needs_gradient(size_t input_index) const override {
    const TensorId id = input(input_index);
    return id != kNoTensor && needed_[static_cast<size_t>(id)];
  }
  void pass_gradient(size_t input_index) override {
    if (!needs_gradient(input_index)) return;
    const TensorId id = op_->inputs[input_index];
    TensorId incoming = gradient(0);
    if (type_of(incoming).shape != graph_.type(id).shape) incoming = view(incoming, id);
    TensorId& slot = gradients_[static_cast<size_t>(id)];
    if (slot == kNoTensor) {
      slot = incoming;
      return;
    }
    slot = emit_sum(id, slot, incoming);
  }
  [[nodiscard]] TensorId scalars() override {
    if (result_.scalars == kNoTensor) {
      result_.scalars = add_tensor("scalars", {{16}, DType::kF64}, Role::kState);
    }
    return result_.scalars;
  }
  GradientTarget make_gradient(size_t input_index, bool can_accumulate) override {
    const TensorId id = op_->inputs[input_index];
    const Tensor& tensor = graph_.tensor(id);
    if (tensor.role == Role::kParameter) {
      const TensorId made = add_tensor("d." + tensor.name, {tensor.type.shape, gradient_type_},
                                       Role::kParameterGradient);
      result_.gradients.push_back({id, made, use_numbers_[vertex_][input_index]});
      return {made, kNoTensor};
    }
    const TensorId made = add_tensor("d." + tensor.name, tensor.type, Role::kGradient);
    TensorId& slot = gradients_[static_cast<size_t>(id)];
    const TensorId previous = slot;
    slot = made;
    if (previous == kNoTensor) return {made, kNoTensor};
    if (can_accumulate) return {made, previous};
    pending_sums_.push_back({id, previous, made});
    return {made, kNoTensor};
  }

 private:
  TensorId add_tensor(std::string name, TensorType type, Role role) {
    result_.tensors.push_back({.name = std::move(name),
                               .type = std::move(type),
                               .role = role,
                               .layer = op_ == nullptr ? -1 : op_->layer,
                               .op = op_ == nullptr ? "receive" : op_->kind,
                               .input_field = "",
                               .view_of = kNoTensor,
                               .parameter = {}});
    return static_cast<TensorId>(result_.tensors.size() - 1);
  }

  // A tensor that is not kept is computed once more, in backward, for the op that reads it.
  TensorId made_again(TensorId id) {
    if (id == kNoTensor || static_cast<size_t>(id) >= graph_.tensors().size()) return id;
    const OpVertex vertex = graph_.producer(id);
    if (vertex == boost::graph_traits<OpGraph>::null_vertex()) return id;
    const OpNode& maker = graph_.op(vertex);
    if (!find_op_rule(maker.kind).made_again()) return id;
    if (again_reader_ == op_ && again_of_ == id) return again_;
    again_reader_ = op_;
    again_of_ = id;
    again_ = add_tensor(graph_.tensor(id).name + ".again", type_of(id), Role::kActivation);
    OpNode again = maker;
    again.layer = op_->layer;
    std::replace(again.outputs.begin(), again.outputs.end(), id, again_);
    const OpNode* reader = std::exchange(op_, &again);
    find_op_rule(maker.kind).forward(*this);
    op_ = reader;
    return again_;
  }

  TensorId emit_sum(TensorId of, TensorId a, TensorId b) {
    const TensorType& type = graph_.type(of);
    const TensorId sum = add_tensor("d." + graph_.tensor(of).name, type, Role::kGradient);
    calls_->push_back({.kernel = "add",
                       .inputs = {a, b},
                       .outputs = {sum},
                       .accumulated = {kNoTensor},
                       .in_place = {{0, 0}, {0, 1}},
                       .attributes = {},
                       .layer = op_->layer,
                       .flops = static_cast<double>(type.elements()),
                       .bytes_moved = 3.0 * static_cast<double>(type.bytes())});
    return sum;
  }

  TensorId view(TensorId of, TensorId like) {
    const TensorId id =
        add_tensor("d." + graph_.tensor(like).name, graph_.type(like), Role::kGradient);
    result_.tensors.back().view_of = of;
    return id;
  }

  // Gradients of what a pipeline stage sends on arrive from the stage behind it.
  void receive_gradients() {
    op_ = nullptr;
    for (const TensorId id : graph_.stage_outputs()) {
      const TensorId made =
          add_tensor("d." + graph_.tensor(id).name, graph_.type(id), Role::kGradient);
      gradients_[static_cast<size_t>(id)] = made;
      result_.stage_outputs.push_back({id, made});
    }
  }

  // A tensor needs a gradient when a parameter leads to it, in this stage or an earlier one.
  void mark_needed() {
    needed_.assign(graph_.tensors().size(), false);
    for (const TensorId id : graph_.stage_inputs()) needed_[static_cast<size_t>(id)] = true;
    for (const TensorId id : graph_.parameters()) needed_[static_cast<size_t>(id)] = true;
    for (const OpVertex vertex : boost::make_iterator_range(boost::vertices(graph_.ops()))) {
      const OpNode& node = graph_.op(vertex);
      const bool any = std::any_of(node.inputs.begin(), node.inputs.end(), [&](TensorId id) {
        return id != kNoTensor && needed_[static_cast<size_t>(id)];
      });
      for (const TensorId id : node.outputs) needed_[static_cast<size_t>(id)] = any;
    }
  }

  // The n-th use of each parameter, in forward order.
  void number_uses() {
    use_numbers_.resize(boost::num_vertices(graph_.ops()));
    for (const OpVertex vertex : boost::make_iterator_range(boost::vertices(graph_.ops()))) {
      for (const TensorId id : graph_.op(vertex).inputs) {
        use_numbers_[vertex].push_back(id == kNoTensor ? 0 : uses_[static_cast<size_t>(id)]++);
      }
    }
  }

  [[nodiscard]] bool needs_backward(const OpNode& node) const {
    const bool wanted = std::any_of(node.inputs.begin(), node.inputs.end(), [&](TensorId id) {
      return id != kNoTensor && needed_[static_cast<size_t>(id)];
    });
    const bool is_loss =
        std::find(node.outputs.begin(), node.outputs.end(), result_.loss) != node.outputs.end();
    const bool reached = std::any_of(node.outputs.begin(), node.outputs.end(), [&](TensorId id) {
      return gradients_[static_cast<size_t>(id)] != kNoTensor;
    });
    return wanted && (is_loss || reached);
  }

  [[nodiscard]] TensorId root(TensorId id) const {
    while (result_.tensors[static_cast<size_t>(id)].view_of != kNoTensor) {
      id = result_.tensors[static_cast<size_t>(id)].view_of;
    }
    return id;
  }

  // Weight parts go behind all else, and with them what they alone read.
  void put_weights_last() {
    std::vector<KernelCall>& calls = result_.backward;
    enum class Readers : uint8_t { kNone, kWeightParts, kOthers };
    std::vector<Readers> readers(result_.tensors.size(), Readers::kNone);
    for (size_t i = calls.size(); i-- > 0;) {
      KernelCall& call = calls[i];
      const bool serves_weights =
          std::all_of(call.outputs.begin(), call.outputs.end(), [&](TensorId id) {
            return id == kNoTensor ||
                   readers[static_cast<size_t>(root(id))] == Readers::kWeightParts;
          });
      call.weight_part = call.weight_part || serves_weights;
      for (const auto* list : {&call.inputs, &call.accumulated}) {
        for (const TensorId id : *list) {
          if (id == kNoTensor) continue;
          Readers& of = readers[static_cast<size_t>(root(id))];
          if (!call.weight_part) {
            of = Readers::kOthers;
          } else if (of == Readers::kNone) {
            of = Readers::kWeightParts;
          }
        }
      }
    }
    std::stable_partition(calls.begin(), calls.end(),
                          [](const KernelCall& call) { return !call.weight_part; });
  }

  void take_weights() {
    std::vector<KernelCall>& calls = result_.backward;
    const auto first = std::find_if(calls.begin(), calls.end(),
                                    [](const KernelCall& call) { return call.weight_part; });
    result_.backward_weights.assign(std::make_move_iterator(first),
                                    std::make_move_iterator(calls.end()));
    calls.erase(first, calls.end());
  }

  // A kernel may add to an earlier gradient only when nobody reads that one afterwards (a residual
  // passes one gradient to two branches): where somebody does, the sum starts from a copy.
  void separate_accumulators() {
    std::vector<KernelCall>& calls = result_.backward;
    std::vector<size_t> last_read(result_.tensors.size(), 0);
    for (size_t i = 0; i < calls.size(); ++i) {
      for (const TensorId id : calls[i].inputs) {
        if (id != kNoTensor) last_read[static_cast<size_t>(root(id))] = i;
      }
      for (const TensorId id : calls[i].accumulated) {
        if (id != kNoTensor) last_read[static_cast<size_t>(root(id))] = i;
      }
    }
    std::vector<KernelCall> out;
    for (size_t i = 0; i < calls.size(); ++i) {
      for (TensorId& from : calls[i].accumulated) {
        if (from == kNoTensor) continue;
        const bool read_here =
            std::any_of(calls[i].inputs.begin(), calls[i].inputs.end(),
                        [&](TensorId id) { return id != kNoTensor && root(id) == root(from); });
        if (last_read[static_cast<size_t>(root(from))] == i && !read_here) continue;
        Tensor copy = result_.tensors[static_cast<size_t>(from)];
        copy.view_of = kNoTensor;
        copy.name += ".copy";
        result_.tensors.push_back(copy);
        const auto id = static_cast<TensorId>(result_.tensors.size() - 1);
        out.push_back({.kernel = "copy",
                       .inputs = {from},
                       .outputs = {id},
                       .accumulated = {kNoTensor},
                       .in_place = {},
                       .attributes = {},
                       .layer = calls[i].layer,
                       .flops = 0,
                       .bytes_moved = 2.0 * static_cast<double>(copy.type.bytes())});
        from = id;
      }
      out.push_back(std::move(calls[i]));
    }
    calls = std::move(out);
  }

  const Graph& graph_;
  DType gradient_type_;
  TrainingGraph result_;
  std::vector<KernelCall>* calls_ = nullptr;
  const OpNode* op_ = nullptr;
  size_t vertex_ = 0;
  std::vector<TensorId> gradients_;  // current gradient of each forward tensor
  struct PendingSum {
    TensorId tensor, previous, made;
  };
  std::vector<PendingSum> pending_sums_;
  const OpNode* again_reader_ = nullptr;
  TensorId again_of_ = kNoTensor;
  TensorId again_ = kNoTensor;
  std::vector<bool> needed_;
  std::vector<int> uses_;
  std::vector<std::vector<int>> use_numbers_;
};

}  // namespace

TrainingGraph forward_only(const Graph& graph) {
  Differentiator walker(graph, graph.float_type());
  walker.run_forward();
  TrainingGraph result = walker.take();
  for (const TensorId id : graph.stage_inputs()) result.stage_inputs.push_back({id, kNoTensor});
  for (const TensorId id : graph.stage_outputs()) result.stage_outputs.push_back({id, kNoTensor});
  return result;
}

TrainingGraph differentiate(const Graph& graph, DType gradient_type, bool split_backward) {
  Differentiator walker(graph, gradient_type);
  walker.run_forward();
  walker.run_backward(split_backward);
  return walker.take();
}

std::vector<TensorId> saved_tensors(const TrainingGraph& graph) {
  const auto root = [&](TensorId id) {
    while (graph.tensors[static_cast<size_t>(id)].view_of != kNoTensor) {
      id = graph.tensors[static_cast<size_t>(id)].view_of;
    }
    return id;
  };
  std::set<TensorId> read;
  for (const auto* calls : {&graph.backward, &graph.backward_weights}) {
    for (const KernelCall& call : *calls) {
      for (const TensorId id : call.inputs) {
        if (id != kNoTensor) read.insert(root(id));
      }
    }
  }
  std::vector<TensorId> saved;
  for (const KernelCall& call : graph.forward) {
    for (const TensorId id : call.outputs) {
      if (id != kNoTensor && root(id) == id && read.count(id) != 0) saved.push_back(id);
    }
  }
  return saved;
}

}  // namespace plimsoll
