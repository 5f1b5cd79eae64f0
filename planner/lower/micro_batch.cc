// Forward and backward of one micro-batch, and the evaluation's forward.
#include "base/error.h"
#include "planner/lower/logical.h"
#include "planner/lower/passes.h"
#include "planner/lower/replicas.h"

#include <algorithm>
#include <map>

namespace plimsoll::lowering {

namespace {

Category category_of(Role role) {
  switch (role) {
    case Role::kParameter:
    case Role::kState:
      return Category::kParameters;
    case Role::kInput:
      return Category::kInput;
    case Role::kActivation:
    case Role::kStatistic:
    case Role::kGradient:
      return Category::kActivations;
    case Role::kParameterGradient:
      return Category::kGradients;
    case Role::kWorkspace:
    case Role::kLoss:
      return Category::kWorkspace;
  }
  return Category::kActivations;
}

LogicalTensor logical_of(const Tensor& tensor) {
  const ParameterInfo& info = *tensor.parameter;
  LogicalTensor logical;
  logical.role = tensor.role == Role::kState ? "state" : "parameter";
  logical.optimizer_group =
      tensor.role == Role::kState ? "state" : (info.matrix ? "matrix" : "vector");
  logical.initialiser.scale = info.scale;
  switch (info.init) {
    case ParameterInfo::Init::kZero:
      logical.initialiser.kind = Initialiser::Kind::kZero;
      break;
    case ParameterInfo::Init::kOne:
      logical.initialiser.kind = Initialiser::Kind::kOne;
      break;
    case ParameterInfo::Init::kNormal:
      logical.initialiser.kind = Initialiser::Kind::kNormal;
      break;
    case ParameterInfo::Init::kUniform:
      logical.initialiser.kind = Initialiser::Kind::kUniform;
      break;
    case ParameterInfo::Init::kRunning:
      logical.initialiser.kind = Initialiser::Kind::kRunning;
      break;
  }
  set_parts(logical, tensor, 0);
  return logical;
}

// Draft tensors for the graph's; parameters, states, scalars and loss are the declared ones.
std::vector<TensorId> import_tensors(Draft& draft, const TrainingGraph& graph) {
  std::map<std::string, TensorId> declared;
  for (const Trained& trained : draft.trained) {
    declared[draft.at(trained.parameter).tensor.name] = trained.parameter;
  }
  std::vector<TensorId> ids;
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& tensor = graph.tensors[i];
    if (static_cast<TensorId>(i) == graph.scalars) {
      ids.push_back(draft.scalars);
    } else if (tensor.role == Role::kParameter || tensor.role == Role::kState) {
      ids.push_back(declared.at(tensor.name));
    } else {
      ids.push_back(draft.add(tensor, category_of(tensor.role)));
      if (tensor.view_of != kNoTensor) {
        draft.share(ids.back(), ids[static_cast<size_t>(tensor.view_of)]);
      }
      if (tensor.role == Role::kLoss) draft.share(ids.back(), draft.loss);
    }
  }
  return ids;
}

void append_calls(Draft& draft, DraftSegment& segment, const std::vector<KernelCall>& calls,
                  const std::vector<TensorId>& ids, Pass pass) {
  const auto map = [&](std::vector<TensorId>& list) {
    for (TensorId& id : list) {
      if (id != kNoTensor) id = ids[static_cast<size_t>(id)];
    }
  };
  for (const KernelCall& call : calls) {
    DraftCall made{call, pass, Stream::kCompute};
    map(made.call.inputs);
    map(made.call.outputs);
    map(made.call.accumulated);
    for (size_t k = 0; k < made.call.outputs.size(); ++k) {
      const TensorId id = made.call.outputs[k];
      // The loss adds up over micro-batches in one buffer.
      if (id != kNoTensor && draft.owner(id) == draft.loss) accumulate_onto(made, k, draft.loss);
      if (made.call.accumulated[k] != kNoTensor) draft.share(id, made.call.accumulated[k]);
    }
    segment.body.push_back(std::move(made));
  }
}

void append_loads(Draft& draft, DraftSegment& segment, const TrainingGraph& graph,
                  const std::vector<TensorId>& ids, const std::string& split) {
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    if (graph.tensors[i].role != Role::kInput) continue;
    DraftCall load = make_call(draft, "load_batch", {}, {ids[i]}, Pass::kInput);
    load.call.attributes.set("field", graph.tensors[i].input_field);
    load.call.attributes.set("split", split);
    segment.body.push_back(std::move(load));
  }
}

// A message to or from a neighbouring stage: the tensors of its boundary, one call each. The tag
// says which of them it is, whose chunk the activations are for, and whether it is a gradient.
void append_messages(Draft& draft, DraftSegment& segment,
                     const std::vector<TrainingGraph::Boundary>& boundary,
                     const std::vector<TensorId>& ids, bool is_gradient, bool sends, int chunk,
                     Pass pass) {
  for (size_t k = 0; k < boundary.size(); ++k) {
    const TensorId tensor = is_gradient ? boundary[k].gradient : boundary[k].tensor;
    if (tensor == kNoTensor) continue;
    const TensorId id = ids[static_cast<size_t>(tensor)];
    DraftCall call = sends ? make_call(draft, "send", {id}, {}, pass)
                           : make_call(draft, "receive", {}, {id}, pass);
    call.stream = Stream::kPipeline;
    // Activations go forwards, gradients backwards.
    call.call.attributes.set("peer", std::string(sends != is_gradient ? "next" : "previous"));
    const auto border = static_cast<int64_t>(k) * draft.strategy->interleave + chunk;
    call.call.attributes.set("tag", 2 * border + (is_gradient ? 1 : 0));
    call.call.layer = -1;
    segment.body.push_back(std::move(call));
  }
}

void set_chunk(DraftSegment& segment, size_t first_call, int chunk) {
  for (size_t i = first_call; i < segment.body.size(); ++i) segment.body[i].chunk = chunk;
}

// The chunk that the activations of a chunk of this stage go on to: the last stage's go to the
// first stage's next chunk.
int chunk_behind(const Draft& draft, int chunk) {
  return draft.stage == draft.strategy->pp - 1 ? chunk + 1 : chunk;
}

// A chunk's load, receive, forward and send.
void append_forward(Draft& draft, DraftSegment& body, const TrainingGraph& graph,
                    const std::vector<TensorId>& ids, int chunk, const std::string& split) {
  const size_t first = body.body.size();
  append_loads(draft, body, graph, ids, split);
  append_messages(draft, body, graph.stage_inputs, ids, false, false, chunk, Pass::kForward);
  append_calls(draft, body, graph.forward, ids, Pass::kForward);
  append_messages(draft, body, graph.stage_outputs, ids, false, true, chunk_behind(draft, chunk),
                  Pass::kForward);
  set_chunk(body, first, chunk);
}

void attach_gradients(Draft& draft, const std::vector<ParameterGradient>& gradients,
                      const std::vector<TensorId>& ids) {
  for (const ParameterGradient& one : gradients) {
    const TensorId parameter = ids[static_cast<size_t>(one.parameter)];
    for (Trained& trained : draft.trained) {
      if (trained.parameter != parameter) continue;
      trained.gradients.resize(std::max(trained.gradients.size(), static_cast<size_t>(one.use) + 1),
                               kNoTensor);
      trained.gradients[static_cast<size_t>(one.use)] = ids[static_cast<size_t>(one.gradient)];
    }
  }
}

DraftSegment clear(const Draft& draft, const std::vector<TensorId>& sums) {
  DraftSegment begin{"begin", 1, {}};
  for (const TensorId sum : sums) {
    DraftCall fill = make_call(draft, "fill", {}, {sum}, Pass::kForward);
    fill.call.attributes.set("value", 0.0);
    begin.body.push_back(std::move(fill));
  }
  return begin;
}

// Counts rightly classified samples from the operands of the loss.
void append_count(Draft& draft, DraftSegment& body) {
  const auto loss = std::find_if(body.body.begin(), body.body.end(), [](const DraftCall& c) {
    return c.call.kernel == "cross_entropy";
  });
  PLIMSOLL_CHECK(loss != body.body.end(), "a classifier without cross-entropy");
  DraftCall count =
      make_call(draft, "count_correct", loss->call.inputs, {draft.correct}, Pass::kForward);
  count.chunk = loss->chunk;
  accumulate_onto(count, 0, draft.correct);
  body.body.push_back(std::move(count));
}

TensorId declare(Draft& draft, const std::string& name, TensorType type, Category category) {
  const TensorId id = draft.add({.name = name,
                                 .type = std::move(type),
                                 .role = Role::kState,
                                 .layer = -1,
                                 .op = "step",
                                 .input_field = "",
                                 .view_of = kNoTensor,
                                 .parameter = {}},
                                category);
  draft.at(id).persistent = true;
  return id;
}

}  // namespace

void declare_persistent(Draft& draft, std::span<const Graph> chunks) {
  for (const Graph& graph : chunks) {
    for (const Tensor& tensor : graph.tensors()) {
      if (tensor.role != Role::kParameter && tensor.role != Role::kState) continue;
      const TensorId id = draft.add(tensor, Category::kParameters);
      draft.at(id).persistent = true;
      draft.at(id).logical = logical_of(tensor);
      Trained trained;
      trained.parameter = id;
      trained.is_state = tensor.role == Role::kState;
      draft.trained.push_back(std::move(trained));
    }
  }
  draft.scalars =
      declare(draft, kScalarsBuffer, {{kNumScalars}, DType::kF64}, Category::kWorkspace);
  draft.loss = declare(draft, kLossBuffer, {{1}, DType::kF64}, Category::kWorkspace);
}

void add_micro_batch(Draft& draft, std::span<const TrainingGraph> chunks,
                     const std::string& phase) {
  for (Trained& trained : draft.trained) trained.gradients.clear();
  DraftSegment body{"micro-batches", draft.num_microbatches(), {}};
  std::vector<std::vector<TensorId>> ids;
  for (size_t c = 0; c < chunks.size(); ++c) {
    ids.push_back(import_tensors(draft, chunks[c]));
    append_forward(draft, body, chunks[c], ids[c], static_cast<int>(c), "train");
  }
  for (size_t c = chunks.size(); c-- > 0;) {
    const TrainingGraph& graph = chunks[c];
    const auto chunk = static_cast<int>(c);
    const size_t first = body.body.size();
    append_messages(draft, body, graph.stage_outputs, ids[c], true, false,
                    chunk_behind(draft, chunk), Pass::kBackward);
    append_calls(draft, body, graph.backward, ids[c], Pass::kBackward);
    append_messages(draft, body, graph.stage_inputs, ids[c], true, true, chunk, Pass::kBackward);
    const size_t weights = body.body.size();
    append_calls(draft, body, graph.backward_weights, ids[c], Pass::kBackward);
    for (size_t i = weights; i < body.body.size(); ++i) body.body[i].weight_part = true;
    set_chunk(body, first, chunk);
    attach_gradients(draft, graph.gradients, ids[c]);
    attach_gradients(draft, graph.state_gradients, ids[c]);
  }
  for (Trained& trained : draft.trained) {
    std::erase(trained.gradients, kNoTensor);
    PLIMSOLL_CHECK(!trained.gradients.empty(), "{} gets no gradient",
                   draft.at(trained.parameter).tensor.name);
  }
  draft.phase(phase).segments = {clear(draft, {draft.loss}), std::move(body)};
}

void add_evaluation(Draft& draft, std::span<const TrainingGraph> chunks) {
  const int64_t repeat = checked_mul(draft.job->eval_batches, draft.num_microbatches());
  DraftSegment body{"micro-batches", repeat, {}};
  for (size_t c = 0; c < chunks.size(); ++c) {
    append_forward(draft, body, chunks[c], import_tensors(draft, chunks[c]), static_cast<int>(c),
                   "validation");
  }
  std::vector<TensorId> sums = {draft.loss};
  if (draft.model->objective == Objective::kClasses) {  // summed over stages, as the loss is
    draft.correct = declare(draft, kCorrectBuffer, {{1}, DType::kF64}, Category::kWorkspace);
    sums.push_back(draft.correct);
    if (draft.stage == draft.strategy->pp - 1) append_count(draft, body);
  }
  std::vector<DraftSegment> segments = {clear(draft, sums), std::move(body)};
  const Replicas data = data_replicas(*draft.strategy);
  for (const auto& [group, size] :
       {std::pair{data.group, data.size}, std::pair{std::string("pp"), draft.strategy->pp}}) {
    if (size == 1) continue;
    segments.push_back({"reduce over " + group, 1, {}});
    for (const TensorId sum : sums) segments.back().body.push_back(all_reduce(draft, sum, group));
  }
  draft.phase("evaluate").segments = std::move(segments);
}

void add_initialise(Draft& draft) {
  DraftSegment segment{"initialise", 1, {}};
  for (size_t i = 0; i < draft.tensors.size(); ++i) {
    const DraftTensor& tensor = draft.tensors[i];
    if (!tensor.persistent) continue;
    DraftCall call = make_call(draft, tensor.logical ? "initialise" : "fill", {},
                               {static_cast<TensorId>(i)}, Pass::kInitialise);
    if (!tensor.logical) call.call.attributes.set("value", 0.0);
    segment.body.push_back(std::move(call));
  }
  draft.phases.insert(draft.phases.begin(), DraftPhase{"initialise", {std::move(segment)}});
}

}  // namespace plimsoll::lowering
