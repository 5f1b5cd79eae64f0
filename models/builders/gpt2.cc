// GPT-2 (Radford et al. 2019): pre-norm blocks, learned positions, tied head. Also GPT-3's shapes.
#include "models/builders/builder.h"

#include <cmath>

namespace plimsoll {

namespace {

TensorId block(Builder& b, const ModelSpec& spec, const std::string& prefix, TensorId x) {
  const double range = spec.initializer_range;
  // Projections back into the residual stream begin smaller, since 2 L of them add up.
  const double residual_range = range / std::sqrt(2.0 * static_cast<double>(spec.layers));
  const LinearOptions inner{.standard_deviation = range, .transposed = true, .parts = {}};
  const LinearOptions outer{.standard_deviation = residual_range, .transposed = true, .parts = {}};

  TensorId y = b.layer_norm(prefix + "ln_1", x);
  y = b.linear(prefix + "attn.c_attn", y, checked_mul(3, spec.hidden), inner);
  y = b.attention(prefix + "attn", y, /*causal=*/true);
  y = b.linear(prefix + "attn.c_proj", y, spec.hidden, outer);
  y = b.dropout(prefix + "attn.resid_dropout", y);
  x = b.graph().add("residual", prefix + "attn.residual", {x, y});

  y = b.layer_norm(prefix + "ln_2", x);
  y = b.linear(prefix + "mlp.c_fc", y, spec.feed_forward, inner);
  y = b.graph().add("gelu", prefix + "mlp.gelu", {y}, {{"approximate", spec.gelu}});
  y = b.linear(prefix + "mlp.c_proj", y, spec.hidden, outer);
  y = b.dropout(prefix + "mlp.dropout", y);
  return b.graph().add("residual", prefix + "mlp.residual", {x, y});
}

}  // namespace

Graph build_gpt2(const ModelSpec& spec, const BuildOptions& options) {
  Builder b(spec, options);
  Graph& graph = b.graph();
  const TensorId tokens = b.token_input("tokens");
  const TensorId targets = b.token_input("targets");
  const ParameterInfo table = normal_weight(spec.initializer_range);
  const TensorId wte = graph.add_parameter("wte.weight", {spec.vocabulary, spec.hidden}, table);
  const TensorId wpe = graph.add_parameter("wpe.weight", {spec.max_positions, spec.hidden}, table);

  TensorId x = graph.add("embedding", "wte", {tokens, wte});
  x = graph.add("position_embedding", "wpe", {x, wpe});
  x = b.dropout("drop", x);
  for (int64_t i = 0; i < spec.layers; ++i) {
    graph.begin_layer(static_cast<int>(i), "gpt2");
    x = block(b, spec, fmt::format("h.{}.", i), x);
    graph.end_layer();
  }
  x = b.layer_norm("ln_f", x);
  TensorId head = wte;
  if (!spec.tied_embeddings) {
    head = graph.add_parameter("lm_head.weight", {spec.vocabulary, spec.hidden}, table);
  }
  b.language_head("lm_head", x, head, targets);
  return b.take();
}

}  // namespace plimsoll
