#include "models/model.h"

#include "base/error.h"
#include "models/builders/builder.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <utility>

namespace plimsoll {

namespace {

// Far above any model, and small enough that no loop over them runs away.
constexpr int64_t kMaxLayers = 100000;
constexpr int64_t kMaxExperts = 1000000;  // of all layers together
constexpr double kMaxFactor = 1e6;        // of capacity and imbalance

void check(bool condition, const ModelSpec& spec, const std::string& message,
           const std::string& hint = "") {
  if (!condition) throw bad_input(fmt::format("model {}: {}", spec.name, message), hint);
}

void check_positive(const ModelSpec& spec,
                    std::initializer_list<std::pair<const char*, int64_t>> sizes) {
  for (const auto& [name, value] : sizes) {
    check(value > 0, spec, fmt::format("{} must be positive, not {}", name, value));
  }
}

bool is_llama(Family family) { return family == Family::kLlama || family == Family::kMoe; }

void check_experts(const ModelSpec& spec) {
  check(spec.experts.has_value() == (spec.family == Family::kMoe), spec,
        "a moe model has experts, and no other has");
  if (!spec.experts) return;
  const ExpertSpec& experts = *spec.experts;
  check_positive(spec, {{"experts", experts.routed},
                        {"experts a token", experts.chosen},
                        {"feed-forward of an expert", experts.feed_forward},
                        {"groups of experts", experts.groups},
                        {"chosen groups", experts.top_groups}});
  // Each expert of each layer is a tensor with a name outside.
  check(experts.routed <= kMaxExperts / std::max<int64_t>(spec.layers, 1), spec,
        fmt::format("{} experts in {} layers exceed the limit of {} in all", experts.routed,
                    spec.layers, kMaxExperts));
  check(experts.chosen <= experts.routed, spec,
        fmt::format("{} of {} experts cannot be chosen", experts.chosen, experts.routed));
  check(experts.shared >= 0, spec, "shared experts must not be negative");
  check(experts.dense_layers >= 0 && experts.dense_layers <= spec.layers, spec,
        fmt::format("{} dense layers must be in [0, {}]", experts.dense_layers, spec.layers));
  check(experts.names == "mixtral" || experts.names == "deepseek", spec,
        fmt::format("expert names are mixtral or deepseek, not {}", experts.names));
}

void check_latent_attention(const ModelSpec& spec) {
  if (!spec.latent_attention) {
    check(!spec.yarn, spec, "yarn scaling comes with latent attention alone");
    return;
  }
  check(is_llama(spec.family), spec, "latent attention belongs to llama and moe models");
  const LatentAttentionSpec& latent = *spec.latent_attention;
  check_positive(spec, {{"kv_rank", latent.kv_rank},
                        {"nope_dim", latent.nope_dim},
                        {"rope_dim", latent.rope_dim},
                        {"value_dim", latent.value_dim}});
  check(latent.query_rank >= 0, spec, "query_rank must not be negative");
  check(
      spec.kv_heads == spec.heads && spec.head_dim == checked_add(latent.nope_dim, latent.rope_dim),
      spec,
      fmt::format("latent attention needs as many key/value heads as query heads, of {}+{}",
                  latent.nope_dim, latent.rope_dim));
  check(!spec.attention_bias && !spec.head_norm && !spec.rope_scaling, spec,
        "latent attention has no biases, no norms of heads and no rope_scaling of Llama 3.1");
}

void check_transformer(const ModelSpec& spec) {
  check_positive(spec, {{"hidden", spec.hidden},
                        {"heads", spec.heads},
                        {"kv_heads", spec.kv_heads},
                        {"head_dim", spec.head_dim},
                        {"feed_forward", spec.feed_forward}});
  check(spec.heads % spec.kv_heads == 0, spec,
        fmt::format("{} heads cannot share {} key/value heads", spec.heads, spec.kv_heads));
  if (is_llama(spec.family)) return;
  check(spec.kv_heads == spec.heads && checked_mul(spec.heads, spec.head_dim) == spec.hidden, spec,
        fmt::format("{} heads of {} must make up hidden size {}", spec.heads, spec.head_dim,
                    spec.hidden));
}

void check_spec(const ModelSpec& spec) {
  check_experts(spec);
  check_latent_attention(spec);
  switch (spec.family) {
    case Family::kMlp:
      check_positive(spec, {{"inputs", spec.inputs}});
      check(spec.layers >= 0, spec, "layers must not be negative");
      if (spec.layers > 0) check_positive(spec, {{"hidden", spec.hidden}});
      if (spec.objective == Objective::kClasses) {
        check_positive(spec, {{"classes", spec.classes}});
      } else {
        check_positive(spec, {{"outputs", spec.outputs}});
      }
      break;
    case Family::kResNet:
      check_positive(spec, {{"hidden", spec.hidden},
                            {"image_size", spec.image_size},
                            {"channels", spec.channels},
                            {"classes", spec.classes}});
      check(!spec.stage_blocks.empty() && spec.stage_blocks.size() <= 16, spec,
            "a resnet has 1 to 16 stages");
      for (const int64_t blocks : spec.stage_blocks) {
        check(blocks > 0 && blocks <= kMaxLayers, spec, "each stage needs at least one block");
      }
      break;
    case Family::kVit:
      check_transformer(spec);
      check_positive(spec, {{"layers", spec.layers},
                            {"image_size", spec.image_size},
                            {"channels", spec.channels},
                            {"patch", spec.patch},
                            {"classes", spec.classes}});
      break;
    case Family::kGpt2:
    case Family::kLlama:
    case Family::kMoe:
    case Family::kBert:
      check_transformer(spec);
      check_positive(spec, {{"layers", spec.layers},
                            {"vocabulary", spec.vocabulary},
                            {"max_positions", spec.max_positions}});
      break;
  }
  check(spec.layers <= kMaxLayers, spec,
        fmt::format("{} layers exceed the limit of {}", spec.layers, kMaxLayers));
}

bool is_text(Family family) {
  return family == Family::kGpt2 || is_llama(family) || family == Family::kBert;
}

void check_expert_options(const ModelSpec& spec, const BuildOptions& options) {
  const int64_t ranks = options.expert_parallel;
  check(ranks >= 1, spec, fmt::format("expert parallelism must be at least 1, not {}", ranks));
  if (!spec.experts) {
    check(ranks == 1, spec, "only models with experts can be expert-parallel");
    return;
  }
  check(spec.experts->routed % ranks == 0, spec,
        fmt::format("{} experts cannot be shared out over {} ranks", spec.experts->routed, ranks));
  check(options.capacity_factor >= 0 && options.capacity_factor <= kMaxFactor, spec,
        fmt::format("the capacity factor must be 0 (dropless) or positive, not {}",
                    options.capacity_factor));
  check(options.expert_imbalance >= 1 && options.expert_imbalance <= kMaxFactor, spec,
        fmt::format("the bound on expert imbalance must be at least 1, not {}",
                    options.expert_imbalance));
}

void check_options(const ModelSpec& spec, const BuildOptions& options) {
  check_expert_options(spec, options);
  check(options.micro_batch > 0, spec,
        fmt::format("the micro-batch must be positive, not {}", options.micro_batch));
  check(options.float_type == DType::kF64 || options.float_type == DType::kF32 ||
            options.float_type == DType::kBF16 || options.float_type == DType::kF16,
        spec, fmt::format("{} is not a floating-point type", dtype_name(options.float_type)));
  check(options.dropout >= 0 && options.dropout < 1, spec,
        fmt::format("dropout must be in [0, 1), not {}", options.dropout));
  check(options.dropout == 0 || spec.family != Family::kResNet, spec, "a resnet has no dropout");
  check(options.attention == "flash" || options.attention == "naive", spec,
        fmt::format("attention is flash or naive, not {}", options.attention));
  check(options.loss_chunks >= 1, spec,
        fmt::format("loss chunks must be at least 1, not {}", options.loss_chunks));
  check(options.loss_chunks == 1 || spec.family == Family::kGpt2 || is_llama(spec.family), spec,
        "only next-token models can compute their loss in chunks");
  if (!is_text(spec.family)) return;
  check(options.seq > 0, spec,
        fmt::format("the sequence length must be positive, not {}", options.seq));
  check(is_llama(spec.family) || options.seq <= spec.max_positions, spec,
        fmt::format("{} tokens a sequence, but it has {} learned positions", options.seq,
                    spec.max_positions),
        fmt::format("use --seq {} or less", spec.max_positions));
}

}  // namespace

std::string_view family_name(Family family) {
  switch (family) {
    case Family::kMlp:
      return "mlp";
    case Family::kResNet:
      return "resnet";
    case Family::kGpt2:
      return "gpt2";
    case Family::kLlama:
      return "llama";
    case Family::kMoe:
      return "moe";
    case Family::kBert:
      return "bert";
    case Family::kVit:
      return "vit";
  }
  return "?";
}

std::string_view objective_name(Objective objective) {
  switch (objective) {
    case Objective::kNextToken:
      return "next_token";
    case Objective::kMaskedToken:
      return "masked_token";
    case Objective::kClasses:
      return "classes";
    case Objective::kRegression:
      return "regression";
  }
  return "?";
}

Graph build_model(const ModelSpec& spec, const BuildOptions& options) {
  check_spec(spec);
  check_options(spec, options);
  switch (spec.family) {
    case Family::kMlp:
      return build_mlp(spec, options);
    case Family::kResNet:
      return build_resnet(spec, options);
    case Family::kGpt2:
      return build_gpt2(spec, options);
    case Family::kLlama:
    case Family::kMoe:
      return build_llama(spec, options);
    case Family::kBert:
      return build_bert(spec, options);
    case Family::kVit:
      return build_vit(spec, options);
  }
  PLIMSOLL_CHECK(false, "family {}", static_cast<int>(spec.family));
  std::abort();
}

namespace {

// The inference form has the same parameters and no lower bound on the micro-batch.
Graph smallest_graph(const ModelSpec& spec) {
  return build_model(spec, {.micro_batch = 1,
                            .seq = 1,
                            .float_type = DType::kF32,
                            .training = false,
                            .save_rules = {},
                            .dropout = 0,
                            .attention = "flash",
                            .loss_chunks = 1});
}

}  // namespace

int64_t count_parameters(const ModelSpec& spec) { return smallest_graph(spec).num_parameters(); }

int64_t active_parameters(const ModelSpec& spec) {
  return active_parameters(smallest_graph(spec), spec);
}

int64_t active_parameters(const Graph& graph, const ModelSpec& spec) {
  int64_t sum = 0;
  for (const TensorId id : graph.parameters()) {
    const Tensor& tensor = graph.tensor(id);
    const int64_t elements = tensor.type.elements();
    const bool of_experts = tensor.op == "moe_expert_linear";
    const int64_t active =
        of_experts ? elements / spec.experts->routed * spec.experts->chosen : elements;
    sum = checked_add(sum, active);
  }
  return sum;
}

int64_t sequence_tokens(const ModelSpec& spec, int64_t seq) {
  if (spec.family != Family::kVit) return seq;
  const int64_t side = spec.patch > 0 ? spec.image_size / spec.patch : 0;
  return checked_mul(side, side) + 1;
}

int64_t attention_width(const ModelSpec& spec) {
  if (!spec.latent_attention) return checked_mul(spec.heads, spec.head_dim);
  return checked_mul(spec.heads, checked_add(spec.head_dim, spec.latent_attention->value_dim)) / 2;
}

}  // namespace plimsoll
