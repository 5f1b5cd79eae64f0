#include "planner/lower/zero.h"

#include "planner/lower/passes.h"
#include "planner/lower/replicas.h"

#include <algorithm>
#include <map>
#include <set>

namespace plimsoll::lowering {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b == 0 ? 0 : 1); }

DraftCall on_data_stream(DraftCall call) {
  call.stream = Stream::kDataParallel;
  return call;
}

DraftCall flat_collective(const Draft& draft, const char* op, TensorId from, TensorId to,
                          TensorId parameter, Pass pass) {
  std::vector<TensorId> inputs;
  if (from != kNoTensor) inputs.push_back(from);
  DraftCall call = on_data_stream(make_call(draft, op, std::move(inputs), {to}, pass));
  if (from == kNoTensor) accumulate_onto(call, 0, to);
  const Replicas replicas = replicas_of(draft, parameter);
  call.call.attributes.set("group", replicas.is_hybrid() ? "shard" : replicas.group);
  if (replicas.is_hybrid()) call.call.attributes.set("shard_ranks", int64_t{replicas.shards});
  call.call.attributes.set("flat", int64_t{1});
  return call;
}

// The blocks of a body: runs of calls of one layer, as [first, last). What lies between two layers
// (the head with its loss and backward) is a block too, cut where a pipeline may run the parts at
// different times: between forward, backward and the weights' part of it, and between chunks of the
// model. A layer's recompute is in the block of its backward.
struct Block {
  size_t first = 0;
  size_t last = 0;
};

bool is_forward(const DraftCall& call) {
  return call.pass == Pass::kInput || call.pass == Pass::kForward;
}

std::vector<Block> find_blocks(const Draft& draft, const std::vector<DraftCall>& body) {
  std::vector<Block> blocks;
  const bool cut = draft.strategy->pp > 1;
  for (size_t i = 0; i < body.size(); ++i) {
    const bool begins = i == 0 || body[i].call.layer != body[i - 1].call.layer ||
                        (cut && is_forward(body[i]) != is_forward(body[i - 1])) ||
                        body[i].chunk != body[i - 1].chunk ||
                        body[i].weight_part != body[i - 1].weight_part;
    if (begins) blocks.push_back({i, i});
    blocks.back().last = i + 1;
  }
  return blocks;
}

// Calls to put before a position of a body.
using Insertions = std::map<size_t, std::vector<DraftCall>>;

void insert_calls(std::vector<DraftCall>& body, Insertions& insertions) {
  std::vector<DraftCall> made;
  for (size_t i = 0; i <= body.size(); ++i) {
    if (const auto at = insertions.find(i); at != insertions.end()) {
      for (DraftCall& call : at->second) made.push_back(std::move(call));
    }
    if (i < body.size()) made.push_back(std::move(body[i]));
  }
  body = std::move(made);
}

// Schedules move the calls with `of`.
void go_with(const DraftCall& of, std::vector<DraftCall>& calls) {
  for (DraftCall& call : calls) {
    call.chunk = of.chunk;
    call.weight_part = of.weight_part;
  }
}

// How many blocks communication runs beside the computation that issued it.
size_t blocks_ahead(const Draft& draft) { return draft.strategy->zero_prefetch ? 1 : 0; }

// Reduces the gradients of each block of the micro-batch to shards.
class GradientSharding {
 public:
  GradientSharding(Draft& draft, DraftPhase& step)
      : draft_(draft),
        begin_(*find_segment(step, "begin")),
        body_(*find_segment(step, "micro-batches")),
        many_(draft.num_microbatches() > 1) {}

  void run() {
    for (Trained& trained : draft_.trained) {
      if (trained.is_state || replicas_of(draft_, trained.parameter).shards == 1) {
        keep_whole(trained);
      } else {
        find_uses(trained);
      }
    }
    const std::vector<Block> blocks = find_blocks(draft_, body_.body);
    Insertions insertions;
    for (size_t b = 0; b < blocks.size(); ++b) {
      std::vector<DraftCall> reductions = reduce_block(blocks[b]);
      if (reductions.empty()) continue;
      // The whole gradients go when a later block's computation has waited for the last of these.
      go_with(body_.body[blocks[b].first], reductions);
      reductions.back().mark = ++draft_.num_marks;
      const size_t waiting = b + 1 + blocks_ahead(draft_);
      if (waiting < blocks.size()) {
        body_.body[blocks[waiting].first].after.push_back(reductions.back().mark);
      }
      insertions[blocks[b].last] = std::move(reductions);
    }
    insert_calls(body_.body, insertions);
  }

 private:
  struct Shard {
    TensorId shard = kNoTensor;
    TensorId parameter = kNoTensor;
  };

  // Statistics are small and summed whole; of experts without replicas nothing is shared.
  void keep_whole(Trained& trained) {
    if (!many_) return;
    const TensorId first = trained.gradients.front();
    const Tensor like = draft_.at(first).tensor;
    const TensorId sum =
        add_transient(draft_, like.name + ".sum", like.type, Category::kGradients, first);
    begin_.body.push_back(fill_zero(draft_, sum, Pass::kForward));
    accumulate_output(draft_, *find_writer(body_, first), first, sum);
    trained.gradients = {sum};
  }

  void find_uses(Trained& trained) {
    const TensorId first = trained.gradients.front();
    const Tensor like = draft_.at(first).tensor;
    const TensorId shard =
        add_transient(draft_, like.name + ".shard",
                      {shard_shape(draft_, trained.parameter, like.type), like.type.dtype},
                      Category::kGradients, first);
    for (const TensorId use : trained.gradients) shard_of_[use] = {shard, trained.parameter};
    if (many_) {
      begin_.body.push_back(fill_zero(draft_, shard, Pass::kForward));
      written_.insert(shard);
    }
    trained.gradients = {shard};
  }

  std::vector<DraftCall> reduce_block(const Block& block) {
    std::vector<DraftCall> reductions;
    for (size_t i = block.first; i < block.last; ++i) {
      for (const TensorId id : body_.body[i].call.outputs) {
        if (const auto at = shard_of_.find(id); at != shard_of_.end()) {
          reduce(id, at->second, reductions);
        }
      }
    }
    return reductions;
  }

  // The first contribution is received where the sum is kept, later ones beside it.
  void reduce(TensorId gradient, const Shard& of, std::vector<DraftCall>& reductions) {
    const TensorId shard = of.shard;
    if (written_.insert(shard).second) {
      reductions.push_back(reduce_scatter(draft_, gradient, shard, of.parameter));
      return;
    }
    const TensorType type = draft_.at(shard).tensor.type;
    const TensorId received = add_transient(draft_, draft_.at(gradient).tensor.name + ".received",
                                            type, Category::kCommunication, gradient);
    reductions.push_back(reduce_scatter(draft_, gradient, received, of.parameter));
    DraftCall add =
        on_data_stream(make_call(draft_, "add", {shard, received}, {shard}, Pass::kReduce));
    add.call.flops = static_cast<double>(type.elements());
    reductions.push_back(std::move(add));
  }

  Draft& draft_;
  DraftSegment& begin_;
  DraftSegment& body_;
  bool many_;
  std::map<TensorId, Shard> shard_of_;  // of each use's whole gradient
  std::set<TensorId> written_;          // shards that hold a value
};

// Gathers parameters for the blocks of one body.
class ParameterGathering {
 public:
  ParameterGathering(Draft& draft, const std::map<TensorId, Tensor>& whole)
      : draft_(draft), whole_(whole) {}

  void run(std::vector<DraftCall>& body) {
    const std::vector<Block> blocks = find_blocks(draft_, body);
    Insertions insertions;
    for (size_t b = 0; b < blocks.size(); ++b) {
      gathered_.clear();
      gathers_.clear();
      for (size_t i = blocks[b].first; i < blocks[b].last; ++i) {
        if (body[i].pass == Pass::kUpdate) continue;
        for (TensorId& id : body[i].call.inputs) {
          if (id != kNoTensor) id = gathered(id, body[i].pass);
        }
      }
      go_with(body[blocks[b].first], gathers_);
      std::vector<DraftCall>& at = insertions[blocks[b - std::min(b, blocks_ahead(draft_))].first];
      std::move(gathers_.begin(), gathers_.end(), std::back_inserter(at));
    }
    insert_calls(body, insertions);
  }

 private:
  // What a call of the block reads in place of `id`.
  TensorId gathered(TensorId id, Pass pass) {
    const TensorId shard = draft_.owner(id);
    const auto known = whole_.find(shard);
    if (known == whole_.end()) return id;
    TensorId& full = gathered_.try_emplace(shard, kNoTensor).first->second;
    if (full == kNoTensor) {
      Tensor tensor = known->second;
      tensor.name += ".gathered";
      full = draft_.add(std::move(tensor), Category::kParameters);
      gathers_.push_back(all_gather(draft_, shard, full, shard, pass));
    }
    if (id == shard) return full;
    const TensorId view = draft_.add(draft_.at(id).tensor, Category::kParameters);
    draft_.share(view, full);
    return view;
  }

  Draft& draft_;
  const std::map<TensorId, Tensor>& whole_;
  std::map<TensorId, TensorId> gathered_;  // of the block, by shard
  std::vector<DraftCall> gathers_;
};

}  // namespace

Shape shard_shape(const Draft& draft, TensorId parameter, const TensorType& type) {
  return {ceil_div(type.elements(), replicas_of(draft, parameter).shards)};
}

DraftCall reduce_scatter(const Draft& draft, TensorId whole, TensorId shard, TensorId parameter) {
  return flat_collective(draft, "reduce_scatter", whole, shard, parameter, Pass::kReduce);
}

DraftCall all_gather(const Draft& draft, TensorId shard, TensorId whole, TensorId parameter,
                     Pass pass) {
  return flat_collective(draft, "all_gather", shard, whole, parameter, pass);
}

void touch_own_part(const Draft& draft, DraftCall& call, TensorId parameter) {
  const int64_t whole = draft.at(parameter).tensor.type.elements();
  const int64_t shards = replicas_of(draft, parameter).shards;
  if (shards == 1) return;
  const int64_t part = ceil_div(whole, shards);
  call.call.attributes.set("shards", shards);
  call.call.attributes.set("elements", whole);
  call.call.flops *= static_cast<double>(part) / static_cast<double>(whole);
  call.call.bytes_moved = 0;
  for (const auto* list : {&call.call.inputs, &call.call.outputs}) {
    for (const TensorId id : *list) {
      if (id == kNoTensor) continue;
      const TensorType& type = draft.at(id).tensor.type;
      const int64_t touched = type.elements() == whole ? part : type.elements();
      call.call.bytes_moved += static_cast<double>(touched * dtype_bytes(type.dtype));
    }
  }
}

void add_sharded_accumulation(Draft& draft, const std::string& phase) {
  GradientSharding(draft, draft.phase(phase)).run();
}

void shard_parameters(Draft& draft) {
  std::map<TensorId, Tensor> whole;
  for (const Trained& trained : draft.trained) {
    const int shards = replicas_of(draft, trained.parameter).shards;
    if (trained.is_state || shards == 1) continue;
    DraftTensor& parameter = draft.at(trained.parameter);
    whole.emplace(trained.parameter, parameter.tensor);
    parameter.tensor.type.shape = shard_shape(draft, trained.parameter, parameter.tensor.type);
    parameter.logical->shards = shards;
  }
  for (DraftPhase& phase : draft.phases) {
    for (DraftSegment& segment : phase.segments) {
      ParameterGathering(draft, whole).run(segment.body);
    }
  }
}

}  // namespace plimsoll::lowering
