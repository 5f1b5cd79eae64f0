// Llama (Touvron et al. 2023): RMS norm, rotary positions, grouped-query attention, SwiGLU. Also
// Mistral's shapes. Fused parameters: [q; k; v] and [gate; up].
#include "models/builders/builder.h"

namespace plimsoll {

namespace {

Attributes rope_attributes(const ModelSpec& spec) {
  Attributes attributes{{"heads", spec.heads},
                        {"kv_heads", spec.kv_heads},
                        {"head_dim", spec.head_dim},
                        {"theta", spec.rope_theta}};
  if (spec.rope_scaling) {
    attributes.set("scaling_factor", spec.rope_scaling->factor);
    attributes.set("low_freq_factor", spec.rope_scaling->low_freq_factor);
    attributes.set("high_freq_factor", spec.rope_scaling->high_freq_factor);
    attributes.set("original_context", spec.rope_scaling->original_context);
  }
  return attributes;
}

TensorId block(Builder& b, const ModelSpec& spec, const std::string& prefix, TensorId x) {
  const double range = spec.initializer_range;
  const LinearOptions plain{.standard_deviation = range, .bias = false, .parts = {}};
  const int64_t query_rows = checked_mul(spec.heads, spec.head_dim);
  const int64_t kv_rows = checked_mul(spec.kv_heads, spec.head_dim);
  const std::string attention = prefix + "self_attn.";
  const std::string mlp = prefix + "mlp.";
  LinearOptions qkv = plain;
  qkv.parts = {{attention + "q_proj", query_rows},
               {attention + "k_proj", kv_rows},
               {attention + "v_proj", kv_rows}};
  LinearOptions gate_up = plain;
  gate_up.parts = {{mlp + "gate_proj", spec.feed_forward}, {mlp + "up_proj", spec.feed_forward}};

  TensorId y = b.rms_norm(prefix + "input_layernorm", x);
  y = b.linear(attention + "qkv_proj", y, checked_add(query_rows, checked_mul(2, kv_rows)), qkv);
  y = b.graph().add("rope", attention + "rope", {y}, rope_attributes(spec));
  y = b.attention(prefix + "self_attn", y, /*causal=*/true);
  y = b.linear(attention + "o_proj", y, spec.hidden, plain);
  y = b.dropout(attention + "dropout", y);
  x = b.graph().add("residual", attention + "residual", {x, y});

  y = b.rms_norm(prefix + "post_attention_layernorm", x);
  y = b.linear(mlp + "gate_up_proj", y, checked_mul(2, spec.feed_forward), gate_up);
  y = b.graph().add("swiglu", mlp + "swiglu", {y});
  y = b.linear(mlp + "down_proj", y, spec.hidden, plain);
  y = b.dropout(mlp + "dropout", y);
  return b.graph().add("residual", mlp + "residual", {x, y});
}

}  // namespace

Graph build_llama(const ModelSpec& spec, const BuildOptions& options) {
  Builder b(spec, options);
  Graph& graph = b.graph();
  const TensorId tokens = b.token_input("tokens");
  const TensorId targets = b.token_input("targets");
  const ParameterInfo table = normal_weight(spec.initializer_range);
  const Shape table_shape{spec.vocabulary, spec.hidden};
  const TensorId embed = graph.add_parameter("model.embed_tokens.weight", table_shape, table);

  TensorId x = graph.add("embedding", "model.embed_tokens", {tokens, embed});
  x = b.dropout("model.embed_dropout", x);
  for (int64_t i = 0; i < spec.layers; ++i) {
    graph.begin_layer(static_cast<int>(i), "llama");
    x = block(b, spec, fmt::format("model.layers.{}.", i), x);
    graph.end_layer();
  }
  x = b.rms_norm("model.norm", x);
  TensorId head = embed;
  if (!spec.tied_embeddings) head = graph.add_parameter("lm_head.weight", table_shape, table);
  b.language_head("lm_head", x, head, targets);
  return b.take();
}

}  // namespace plimsoll
