// A layer of experts: route, copy rows to the experts, run them as grouped products, bring the
// results back weighted. Over expert-parallel ranks the counts are exchanged first, then the rows,
// and the results the other way.
#include "models/builders/decoder.h"

#include <algorithm>
#include <cmath>

namespace plimsoll {

namespace {

// Names of an expert's projections in exported files.
struct ExpertNames {
  const char* layer;
  const char* gate;
  const char* up;
  const char* down;
};

ExpertNames expert_names(const ExpertSpec& experts) {
  if (experts.names == "mixtral") return {"block_sparse_moe.", "w1", "w3", "w2"};
  return {"mlp.", "gate_proj", "up_proj", "down_proj"};
}

class ExpertLayer {
 public:
  ExpertLayer(Builder& b, const std::string& block, int64_t tokens)
      : b_(b),
        graph_(b.graph()),
        experts_(*b.spec().experts),
        names_(expert_names(experts_)),
        prefix_(block + names_.layer),
        rows_(expert_rows(experts_, b.options(), tokens)) {}

  TensorId build(TensorId x) {
    // The shared experts come first, so their backward comes last, when the routed rows are gone.
    TensorId shared = kNoTensor;
    if (experts_.shared > 0) {
      shared = gated_feed_forward(b_, prefix_ + "shared_experts.", x,
                                  checked_mul(experts_.shared, experts_.feed_forward));
    }
    const TensorId weights = route(x);
    const TensorId indices = b_.last_output(1);
    TensorId y = graph_.add("moe_dispatch", prefix_ + "dispatch", {x, indices},
                            {{"experts", experts_.routed}, {"capacity", rows_.capacity}});
    const TensorId position = b_.last_output(1);
    const TensorId counts = b_.last_output(2);
    if (b_.options().expert_parallel > 1) {
      const TensorId received = graph_.add("all_to_all", prefix_ + "counts_exchange",
                                           {counts, kNoTensor, kNoTensor}, {{"group", "ep"}});
      y = exchange("rows_exchange", y, counts, received, rows_.bound);
      y = run_experts(y, received);
      y = exchange("results_exchange", y, received, counts, rows_.dispatched);
    } else {
      y = run_experts(y, counts);
    }
    y = graph_.add("moe_combine", prefix_ + "combine", {y, weights, position});
    if (shared == kNoTensor) return y;
    return graph_.add("residual", prefix_ + "shared_sum", {y, shared});
  }

 private:
  TensorId route(TensorId x) {
    const LinearOptions plain{
        .standard_deviation = b_.spec().initializer_range, .bias = false, .parts = {}};
    const TensorId logits = b_.linear(prefix_ + "gate", x, experts_.routed, plain);
    return graph_.add("moe_router", prefix_ + "router", {logits},
                      {{"top_k", experts_.chosen},
                       {"scoring", experts_.scoring},
                       {"renormalise", int64_t{experts_.renormalise ? 1 : 0}},
                       {"weight_scale", experts_.weight_scale},
                       {"groups", experts_.groups},
                       {"top_groups", experts_.top_groups}});
  }

  // With a capacity all parts are equal and no counts are needed to tell them apart.
  TensorId exchange(const std::string& name, TensorId rows, TensorId sent, TensorId received,
                    int64_t bound) {
    if (rows_.capacity > 0) {
      return graph_.add("all_to_all", prefix_ + name, {rows, kNoTensor, kNoTensor},
                        {{"group", "ep"}});
    }
    return graph_.add("all_to_all", prefix_ + name, {rows, sent, received},
                      {{"group", "ep"}, {"row_bound", bound}});
  }

  TensorId run_experts(TensorId rows, TensorId counts) {
    TensorId y =
        expert_linear("experts.gate_up_proj", rows, counts,
                      {{names_.gate, experts_.feed_forward}, {names_.up, experts_.feed_forward}});
    y = graph_.add("swiglu", prefix_ + "experts.swiglu", {y});
    return expert_linear("experts.down_proj", y, counts, {{names_.down, b_.spec().hidden}});
  }

  TensorId expert_linear(const std::string& name, TensorId x, TensorId counts,
                         const std::vector<LinearOptions::Part>& parts) {
    ParameterInfo info = normal_weight(b_.spec().initializer_range);
    int64_t width = 0;
    for (const auto& part : parts) width = checked_add(width, part.rows);
    info.parts.reserve(static_cast<size_t>(rows_.local_experts) * parts.size());
    for (int64_t e = 0; e < rows_.local_experts; ++e) {
      for (const auto& part : parts) {
        info.parts.push_back({.name = fmt::format("{}experts.{}.{}.weight", prefix_, e, part.name),
                              .rows = part.rows});
      }
    }
    const Shape shape{checked_mul(rows_.local_experts, width), graph_.type(x).last()};
    const TensorId w = graph_.add_parameter(prefix_ + name + ".weight", shape, std::move(info));
    return graph_.add("moe_expert_linear", prefix_ + name, {x, w, counts},
                      {{"experts", rows_.local_experts},
                       {"capacity", rows_.capacity},
                       {"routed_rows", rows_.routed}});
  }

  Builder& b_;
  Graph& graph_;
  const ExpertSpec& experts_;
  ExpertNames names_;
  std::string prefix_;
  ExpertRows rows_;
};

// ceil of a product of user's numbers that rounding may have pushed over a whole number.
int64_t ceil_of(double value) { return static_cast<int64_t>(std::ceil(value * (1 - 1e-12))); }

}  // namespace

ExpertRows expert_rows(const ExpertSpec& experts, const BuildOptions& options, int64_t tokens) {
  const int64_t ranks = options.expert_parallel;
  const int64_t chosen = checked_mul(tokens, experts.chosen);
  ExpertRows rows;
  rows.local_experts = experts.routed / ranks;
  if (options.capacity_factor > 0) {
    const double share =
        options.capacity_factor * static_cast<double>(chosen) / static_cast<double>(experts.routed);
    rows.capacity = share >= static_cast<double>(tokens) ? tokens : ceil_of(share);
    rows.dispatched = checked_mul(experts.routed, rows.capacity);
    rows.bound = rows.dispatched;
    rows.routed = std::min(chosen, rows.bound);
    return rows;
  }
  rows.dispatched = chosen;
  rows.routed = chosen;
  // Each of the ranks' tokens can choose a rank's experts once each.
  const int64_t worst =
      checked_mul(checked_mul(ranks, tokens), std::min(experts.chosen, rows.local_experts));
  const double declared = options.expert_imbalance * static_cast<double>(chosen);
  rows.bound = declared >= static_cast<double>(worst) ? worst : ceil_of(declared);
  return rows;
}

TensorId expert_layer(Builder& b, const std::string& block, TensorId x) {
  return ExpertLayer(b, block, b.graph().type(x).rows()).build(x);
}

}  // namespace plimsoll
