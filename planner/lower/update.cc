// Accumulation over micro-batches and uses, reduction over ranks, and the optimizer.
#include "base/error.h"
#include "planner/lower/passes.h"
#include "planner/lower/replicas.h"
#include "planner/lower/zero.h"

#include <algorithm>

namespace plimsoll::lowering {

namespace {

// Elements [first, first + count) of a parameter that `copies` tensor-parallel ranks hold alike.
struct SharedRange {
  int64_t first = 0, count = 0;
  int copies = 1;
};

// The parameter as ranges; one of all elements where it is shared in one way. What all ranks hold
// alike has as many copies as there are ranks.
std::vector<SharedRange> shared_ranges(const Draft& draft, const Tensor& parameter) {
  const int64_t elements = parameter.type.elements();
  if (!parameter.shard || parameter.shard->dimension < 0) {
    return {{0, elements, draft.strategy->tp}};
  }
  const auto& ranges = parameter.shard->ranges;
  if (std::all_of(ranges.begin(), ranges.end(), [&](const ShardedRange& range) {
        return range.copies == ranges.front().copies;
      })) {
    return {{0, elements, ranges.front().copies}};
  }
  PLIMSOLL_CHECK(parameter.shard->dimension == 0, "{}: ranges along dimension {}", parameter.name,
                 parameter.shard->dimension);
  const int64_t row = elements / parameter.type.shape.front();
  std::vector<SharedRange> found;
  int64_t first = 0;
  for (const ShardedRange& range : ranges) {
    found.push_back({first, range.local * row, range.copies});
    first += range.local * row;
  }
  return found;
}

void set_range(DraftCall& call, const SharedRange& range, int64_t elements) {
  if (range.count == elements) return;
  call.call.attributes.set("first", range.first);
  call.call.attributes.set("count", range.count);
}

// Sum of squares of every gradient into one slot each of `terms`, which is cleared first;
// `own_part`: of this rank's shard alone.
void append_norm_terms(const Draft& draft, DraftSegment& segment, TensorId terms, Pass pass,
                       bool own_part = false) {
  segment.body.push_back(fill_zero(draft, terms, pass));
  int64_t index = 0;
  for (const Trained& trained : draft.trained) {
    if (trained.is_state || trained.shared) continue;
    const TensorId gradient = trained.gradients.front();
    const Tensor& parameter = draft.at(trained.parameter).tensor;
    for (const SharedRange& range : shared_ranges(draft, parameter)) {
      DraftCall call = make_call(draft, "sum_squares", {gradient}, {terms}, pass);
      accumulate_onto(call, 0, terms);
      call.call.attributes.set("index", index);
      // What several ranks hold alike is counted by each in equal parts.
      const int copies = range.copies * (own_part || is_expert(parameter) ? 1 : draft.strategy->ep);
      if (copies != 1) call.call.attributes.set("scale", 1.0 / copies);
      set_range(call, range, parameter.type.elements());
      call.call.layer = draft.at(gradient).tensor.layer;
      call.call.flops = 2.0 * static_cast<double>(range.count);
      if (own_part) touch_own_part(draft, call, trained.parameter);
      segment.body.push_back(std::move(call));
    }
    ++index;
  }
}

// Gradients that count towards the norm: at least one, for a buffer's sake.
int64_t num_normed(const Draft& draft) {
  const auto count =
      std::count_if(draft.trained.begin(), draft.trained.end(),
                    [](const Trained& trained) { return !trained.is_state && !trained.shared; });
  return std::max<int64_t>(1, count);
}

// Persistent: the trainer reads it after the step.
void declare_small_norm(Draft& draft) {
  if (draft.small_norm != kNoTensor) return;
  draft.small_norm = draft.add({.name = kNoiseBuffer,
                                .type = {{1}, DType::kF64},
                                .role = Role::kState,
                                .layer = -1,
                                .op = "step",
                                .input_field = "",
                                .view_of = kNoTensor,
                                .parameter = {}},
                               Category::kWorkspace);
  draft.at(draft.small_norm).persistent = true;
}

TensorId add_moment(Draft& draft, const Trained& trained, const std::string& suffix, DType dtype) {
  const DraftTensor parameter = draft.at(trained.parameter);
  Tensor tensor = parameter.tensor;
  tensor.name += "." + suffix;
  tensor.type.dtype = dtype;
  const int shards = draft.strategy->zero >= 1 ? replicas_of(draft, trained.parameter).shards : 1;
  if (shards > 1) tensor.type.shape = shard_shape(draft, trained.parameter, tensor.type);
  tensor.role = Role::kState;
  const TensorId id = draft.add(std::move(tensor), Category::kOptimizer);
  draft.at(id).persistent = true;
  LogicalTensor logical = *parameter.logical;
  logical.role = suffix;
  logical.initialiser = {};
  logical.shards = shards;
  for (LogicalPart& part : logical.parts) part.name += "." + suffix;
  draft.at(id).logical = std::move(logical);
  return id;
}

// What the optimizer keeps of a parameter, made once for all phases.
void keep_moments(Draft& draft, Trained& trained) {
  const Job& job = *draft.job;
  if (!trained.moments.empty() || trained.master != kNoTensor) return;
  switch (job.optimizer) {
    case Optimizer::kAdamW:
    case Optimizer::kAdam:
      trained.moments = {add_moment(draft, trained, "moment1", job.state_type),
                         add_moment(draft, trained, "moment2", job.state_type)};
      break;
    case Optimizer::kLion:
      trained.moments = {add_moment(draft, trained, "momentum", job.state_type)};
      break;
    case Optimizer::kSgd:
      if (job.momentum != 0) {
        trained.moments = {add_moment(draft, trained, "momentum", job.state_type)};
      }
      break;
  }
  if (job.master_weights) trained.master = add_moment(draft, trained, "master", DType::kF32);
}

DraftCall optimizer_call(Draft& draft, Trained& trained) {
  const Job& job = *draft.job;
  keep_moments(draft, trained);
  std::vector<TensorId> inputs = {trained.parameter, trained.gradients.front()};
  std::vector<TensorId> updated = {trained.parameter};
  inputs.insert(inputs.end(), trained.moments.begin(), trained.moments.end());
  updated.insert(updated.end(), trained.moments.begin(), trained.moments.end());
  if (job.optimizer == Optimizer::kSgd && trained.moments.empty()) inputs.push_back(kNoTensor);
  if (trained.master != kNoTensor) updated.push_back(trained.master);
  const std::string op(optimizer_name(job.optimizer));
  inputs.push_back(draft.scalars);
  if (trained.master != kNoTensor) inputs.push_back(trained.master);
  DraftCall call = make_call(draft, op, std::move(inputs), updated, Pass::kUpdate);
  for (size_t k = 0; k < updated.size(); ++k) accumulate_onto(call, k, updated[k]);
  Attributes& attributes = call.call.attributes;
  if (job.optimizer == Optimizer::kSgd) {
    attributes.set("momentum", job.momentum);
  } else {
    attributes.set("beta1", job.beta1);
    attributes.set("beta2", job.beta2);
    if (job.optimizer != Optimizer::kLion) attributes.set("epsilon", job.epsilon);
  }
  const bool matrix = draft.at(trained.parameter).logical->optimizer_group == "matrix";
  attributes.set("weight_decay", matrix || job.decay_all ? job.weight_decay : 0.0);
  call.call.flops = 12.0 * static_cast<double>(draft.at(trained.parameter).tensor.type.elements());
  if (draft.strategy->zero >= 1) touch_own_part(draft, call, trained.parameter);
  return call;
}

// Tensor parallelism: of what ranks hold alike, each may have a part of the gradient's sum.
void add_tensor_reduction(Draft& draft, const std::string& phase) {
  DraftSegment segment{"reduce over tp", 1, {}};
  for (const Trained& trained : draft.trained) {
    const Tensor& parameter = draft.at(trained.parameter).tensor;
    const bool is_whole = !parameter.shard || parameter.shard->dimension < 0;
    if (is_whole && !(parameter.shard && parameter.shard->partial_gradient)) continue;
    for (const SharedRange& range : shared_ranges(draft, parameter)) {
      if (range.copies == 1) continue;
      const TensorId gradient = trained.gradients.front();
      DraftCall call = all_reduce(draft, gradient, "tp");
      if (!is_whole) call.call.attributes.set("copies", range.copies);
      if (range.count != parameter.type.elements()) {
        set_range(call, range, parameter.type.elements());
        call.call.bytes_moved = call.call.bytes_moved * static_cast<double>(range.count) /
                                static_cast<double>(parameter.type.elements());
        // The gradient may be a shard of the data-parallel group's.
        if (draft.strategy->zero >= 2) touch_own_part(draft, call, trained.parameter);
      }
      segment.body.push_back(std::move(call));
    }
  }
  if (!segment.body.empty()) draft.phase(phase).segments.push_back(std::move(segment));
}

// Pipelines: what several stages hold has one gradient, and every stage knows the loss.
void add_stage_reduction(Draft& draft, const std::string& phase) {
  DraftSegment segment{"reduce over pp", 1, {}};
  for (const Trained& trained : draft.trained) {
    if (!trained.in_other_stage) continue;
    segment.body.push_back(all_reduce(draft, trained.gradients.front(), "embedding"));
  }
  segment.body.push_back(all_reduce(draft, draft.loss, "pp"));
  draft.phase(phase).segments.push_back(std::move(segment));
}

// The ranks' own gradients are the small batches of the noise estimator.
void add_small_norm(Draft& draft, const std::string& phase) {
  declare_small_norm(draft);
  DraftSegment reduce{"reduce", 1, {}};
  const TensorId terms = add_transient(draft, "small_norm_terms",
                                       {{num_normed(draft)}, DType::kF64}, Category::kWorkspace);
  append_norm_terms(draft, reduce, terms, Pass::kReduce);
  reduce.body.push_back(make_call(draft, "sum_terms", {terms}, {draft.small_norm}, Pass::kReduce));
  draft.phase(phase).segments.push_back(std::move(reduce));
}

}  // namespace

void add_accumulation(Draft& draft, const std::string& phase) {
  DraftPhase& step = draft.phase(phase);
  DraftSegment& begin = *find_segment(step, "begin");
  DraftSegment& body = *find_segment(step, "micro-batches");
  const bool many = draft.num_microbatches() > 1;
  DraftSegment sums{"sum uses", 1, {}};
  for (Trained& trained : draft.trained) {
    for (TensorId& gradient : trained.gradients) {
      DraftCall* writer = find_writer(body, gradient);
      if (many) {
        const Tensor like = draft.at(gradient).tensor;
        const TensorId sum =
            add_transient(draft, like.name + ".sum", like.type, Category::kGradients, gradient);
        begin.body.push_back(fill_zero(draft, sum, Pass::kForward));
        accumulate_output(draft, *writer, gradient, sum);
        gradient = sum;
      } else if (trained.gradients.size() == 2 && gradient == trained.gradients.front() &&
                 writer->call.kernel == "embedding.backward") {
        // A row's gradient is summed first and added once, so adding to the other use's gradient
        // gives the bits of two accumulators and an addition (sums of two commute).
        accumulate_output(draft, *writer, gradient, trained.gradients.back());
        trained.gradients.resize(1);
        break;
      }
    }
    for (size_t use = 1; use < trained.gradients.size(); ++use) {
      const TensorId first = trained.gradients.front();
      DraftCall add =
          make_call(draft, "add", {first, trained.gradients[use]}, {first}, Pass::kReduce);
      add.call.flops = static_cast<double>(draft.at(first).tensor.type.elements());
      sums.body.push_back(std::move(add));
    }
  }
  if (!sums.body.empty()) step.segments.push_back(std::move(sums));
}

void add_measured_accumulation(Draft& draft, const std::string& phase) {
  declare_small_norm(draft);
  DraftPhase& step = draft.phase(phase);
  DraftSegment& begin = *find_segment(step, "begin");
  DraftSegment& body = *find_segment(step, "micro-batches");
  begin.body.push_back(fill_zero(draft, draft.small_norm, Pass::kForward));
  const auto new_sum = [&](TensorId like) {
    const Tensor tensor = draft.at(like).tensor;
    const TensorId sum =
        add_transient(draft, tensor.name + ".sum", tensor.type, Category::kGradients, like);
    begin.body.push_back(fill_zero(draft, sum, Pass::kForward));
    return sum;
  };
  const auto add_onto = [&](TensorId onto, TensorId other) {
    DraftCall add = make_call(draft, "add", {onto, other}, {onto}, Pass::kBackward);
    add.call.flops = static_cast<double>(draft.at(onto).tensor.type.elements());
    body.body.push_back(std::move(add));
  };
  for (Trained& trained : draft.trained) {
    const TensorId first = trained.gradients.front();
    if (trained.is_state) {
      const TensorId sum = new_sum(first);
      accumulate_output(draft, *find_writer(body, first), first, sum);
      trained.gradients = {sum};
    } else {
      for (size_t use = 1; use < trained.gradients.size(); ++use) {
        add_onto(first, trained.gradients[use]);
      }
    }
  }
  const TensorId terms = add_transient(draft, "small_norm_terms",
                                       {{num_normed(draft)}, DType::kF64}, Category::kWorkspace);
  append_norm_terms(draft, body, terms, Pass::kBackward);
  DraftCall total = make_call(draft, "sum_terms", {terms}, {draft.small_norm}, Pass::kBackward);
  accumulate_onto(total, 0, draft.small_norm);
  body.body.push_back(std::move(total));
  for (Trained& trained : draft.trained) {
    if (trained.is_state) continue;
    const TensorId sum = new_sum(trained.gradients.front());
    add_onto(sum, trained.gradients.front());
    trained.gradients = {sum};
  }
}

void add_reduction(Draft& draft, const std::string& phase) {
  const Strategy& strategy = *draft.strategy;
  if (strategy.tp > 1) add_tensor_reduction(draft, phase);
  if (strategy.pp > 1) add_stage_reduction(draft, phase);
  const Replicas data = data_replicas(strategy);
  if (data.size == 1) return;
  // ZeRO 2 and 3 have reduced the gradients already, and no rank has its own to measure; with
  // expert parallelism the experts' gradients are of other ranks' samples too.
  const bool measures = strategy.zero <= 1 && strategy.ep * strategy.cp == 1;
  if (measures) add_small_norm(draft, phase);
  // A segment of its own: collectives start when all streams have joined.
  DraftSegment exchange{"exchange", 1, {}};
  for (const Trained& trained : draft.trained) {
    const TensorId gradient = trained.gradients.front();
    const Replicas replicas = replicas_of(draft, trained.parameter);
    if (replicas.size == 1) continue;
    if (trained.is_state || strategy.zero == 0) {
      exchange.body.push_back(all_reduce(draft, gradient, replicas.group));
      continue;
    }
    if (strategy.zero == 1) {
      exchange.body.push_back(reduce_scatter(draft, kNoTensor, gradient, trained.parameter));
    }
    if (replicas.is_hybrid()) {
      exchange.body.push_back(reduce_over_replicas(draft, gradient, trained.parameter));
    }
  }
  exchange.body.push_back(all_reduce(draft, draft.loss, data.group));
  if (measures) {
    exchange.body.push_back(all_reduce(draft, draft.small_norm, "dp"));
    if (strategy.tp > 1) exchange.body.push_back(all_reduce(draft, draft.small_norm, "tp"));
    if (strategy.pp > 1) exchange.body.push_back(all_reduce(draft, draft.small_norm, "pp"));
  }
  draft.phase(phase).segments.push_back(std::move(exchange));
}

void add_update(Draft& draft, const std::string& phase) {
  DraftSegment update{"update", 1, {}};
  const TensorId terms =
      add_transient(draft, "norm_terms", {{num_normed(draft)}, DType::kF64}, Category::kWorkspace);
  const int zero = draft.strategy->zero;
  append_norm_terms(draft, update, terms, Pass::kUpdate, zero >= 1);
  const Replicas data = data_replicas(*draft.strategy);
  if (zero >= 1) {
    update.body.push_back(all_reduce(draft, terms, data.is_hybrid() ? "shard" : data.group));
    if (data.is_hybrid()) {
      update.body.back().call.attributes.set("shard_ranks", int64_t{data.shards});
    }
  }
  // Under ZeRO the terms are summed over all experts with the shards.
  const bool sums_experts = zero == 0 && draft.strategy->ep > 1;
  TensorId norm = terms;
  if (draft.strategy->pp * draft.strategy->tp > 1 || sums_experts) {
    // Every rank clips by the norm over all of them.
    norm = add_transient(draft, "whole_norm_sq", {{1}, DType::kF64}, Category::kWorkspace);
    update.body.push_back(make_call(draft, "sum_terms", {terms}, {norm}, Pass::kUpdate));
    if (draft.strategy->tp > 1) update.body.push_back(all_reduce(draft, norm, "tp"));
    if (sums_experts) update.body.push_back(all_reduce(draft, norm, "ep"));
    if (draft.strategy->pp > 1) update.body.push_back(all_reduce(draft, norm, "pp"));
  }
  DraftCall clip = make_call(draft, "clip", {norm, draft.scalars}, {draft.scalars}, Pass::kUpdate);
  accumulate_onto(clip, 0, draft.scalars);
  clip.call.attributes.set("max_norm", draft.job->clip);
  update.body.push_back(std::move(clip));
  const auto contributions =
      checked_mul(draft.strategy->num_sample_ranks(), draft.num_microbatches());
  for (Trained& trained : draft.trained) {
    if (!trained.is_state) {
      update.body.push_back(optimizer_call(draft, trained));
      const bool sharded = replicas_of(draft, trained.parameter).shards > 1;
      if (sharded && (zero == 1 || zero == 2)) {
        update.body.push_back(
            all_gather(draft, kNoTensor, trained.parameter, trained.parameter, Pass::kUpdate));
      }
      continue;
    }
    DraftCall ema = make_call(draft, "ema", {trained.gradients.front(), draft.scalars},
                              {trained.parameter}, Pass::kUpdate);
    accumulate_onto(ema, 0, trained.parameter);
    ema.call.attributes.set("momentum", 0.1);
    ema.call.attributes.set("count", static_cast<double>(contributions));
    update.body.push_back(std::move(ema));
  }
  draft.phase(phase).segments.push_back(std::move(update));
}

}  // namespace plimsoll::lowering
