// Llama (Touvron et al. 2023): RMS norm, rotary positions, grouped-query attention, SwiGLU; and
// what is built on it: Mistral, Qwen2 and Qwen3, Mixtral (experts), DeepSeek-V3 (experts and latent
// attention). Fused parameters: [q; k; v] and [gate; up].
#include "models/builders/decoder.h"

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

TensorId grouped_attention(Builder& b, const std::string& attention, TensorId x) {
  const ModelSpec& spec = b.spec();
  const LinearOptions plain{
      .standard_deviation = spec.initializer_range, .bias = false, .parts = {}};
  const int64_t query_rows = checked_mul(spec.heads, spec.head_dim);
  const int64_t kv_rows = checked_mul(spec.kv_heads, spec.head_dim);
  LinearOptions qkv = plain;
  qkv.bias = spec.attention_bias;
  qkv.parts = {{attention + "q_proj", query_rows},
               {attention + "k_proj", kv_rows},
               {attention + "v_proj", kv_rows}};
  TensorId y =
      b.linear(attention + "qkv_proj", x, checked_add(query_rows, checked_mul(2, kv_rows)), qkv);
  if (spec.head_norm) {
    const ParameterInfo one = constant_vector(ParameterInfo::Init::kOne);
    const TensorId q = b.graph().add_parameter(attention + "q_norm.weight", {spec.head_dim}, one);
    const TensorId k = b.graph().add_parameter(attention + "k_norm.weight", {spec.head_dim}, one);
    y = b.graph().add("qk_norm", attention + "qk_norm", {y, q, k},
                      {{"heads", spec.heads},
                       {"kv_heads", spec.kv_heads},
                       {"head_dim", spec.head_dim},
                       {"epsilon", spec.norm_epsilon}});
  }
  y = b.graph().add("rope", attention + "rope", {y}, rope_attributes(spec));
  y = b.attention(attention.substr(0, attention.size() - 1), y, /*causal=*/true);
  return b.linear(attention + "o_proj", y, spec.hidden, plain);
}

bool has_experts(const ModelSpec& spec, int64_t layer) {
  return spec.experts && layer >= spec.experts->dense_layers;
}

TensorId block(Builder& b, int64_t layer, TensorId x) {
  const ModelSpec& spec = b.spec();
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  const std::string attention = prefix + "self_attn.";
  TensorId y = b.rms_norm(prefix + "input_layernorm", x);
  y = spec.latent_attention ? latent_attention(b, attention, y)
                            : grouped_attention(b, attention, y);
  y = b.dropout(attention + "dropout", y);
  x = b.graph().add("residual", attention + "residual", {x, y});

  const std::string mlp = prefix + "mlp.";
  y = b.rms_norm(prefix + "post_attention_layernorm", x);
  y = has_experts(spec, layer) ? expert_layer(b, prefix, y)
                               : gated_feed_forward(b, mlp, y, spec.feed_forward);
  y = b.dropout(mlp + "dropout", y);
  return b.graph().add("residual", mlp + "residual", {x, y});
}

}  // namespace

TensorId gated_feed_forward(Builder& b, const std::string& prefix, TensorId x, int64_t width) {
  const LinearOptions plain{
      .standard_deviation = b.spec().initializer_range, .bias = false, .parts = {}};
  LinearOptions gate_up = plain;
  gate_up.parts = {{prefix + "gate_proj", width}, {prefix + "up_proj", width}};
  TensorId y = b.linear(prefix + "gate_up_proj", x, checked_mul(2, width), gate_up);
  y = b.graph().add("swiglu", prefix + "swiglu", {y});
  return b.linear(prefix + "down_proj", y, b.spec().hidden, plain);
}

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
    graph.begin_layer(static_cast<int>(i), has_experts(spec, i) ? "experts" : "llama");
    x = block(b, i, x);
    graph.end_layer();
  }
  x = b.rms_norm("model.norm", x);
  TensorId head = embed;
  if (!spec.tied_embeddings) head = graph.add_parameter("lm_head.weight", table_shape, table);
  b.language_head("lm_head", x, head, targets);
  return b.take();
}

}  // namespace plimsoll
