// Multi-head latent attention (DeepSeek-V2, §2.1), in the form that trains: keys and values come up
// from their common low rank, and a small rotated key part is shared by all heads.
#include "models/builders/decoder.h"

#include <cmath>

namespace plimsoll {

namespace {

double yarn_magnitude(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

// 1/sqrt(N+P), enlarged with the context that YaRN stretches to.
double softmax_scale(const ModelSpec& spec) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(spec.head_dim));
  if (!spec.yarn || spec.yarn->mscale_all_dim == 0) return scale;
  const double magnitude = yarn_magnitude(spec.yarn->factor, spec.yarn->mscale_all_dim);
  return scale * magnitude * magnitude;
}

Attributes rope_attributes(const ModelSpec& spec) {
  Attributes attributes{{"heads", spec.heads},
                        {"nope_dim", spec.latent_attention->nope_dim},
                        {"rope_dim", spec.latent_attention->rope_dim},
                        {"theta", spec.rope_theta}};
  if (spec.yarn) {
    attributes.set("yarn_factor", spec.yarn->factor);
    attributes.set("beta_fast", spec.yarn->beta_fast);
    attributes.set("beta_slow", spec.yarn->beta_slow);
    attributes.set("original_context", spec.yarn->original_context);
    attributes.set("magnitude", yarn_magnitude(spec.yarn->factor, spec.yarn->mscale) /
                                    yarn_magnitude(spec.yarn->factor, spec.yarn->mscale_all_dim));
  }
  return attributes;
}

}  // namespace

TensorId latent_attention(Builder& b, const std::string& prefix, TensorId x) {
  const ModelSpec& spec = b.spec();
  const LatentAttentionSpec& latent = *spec.latent_attention;
  Graph& graph = b.graph();
  const LinearOptions plain{
      .standard_deviation = spec.initializer_range, .bias = false, .parts = {}};
  const int64_t query_width = checked_mul(spec.heads, spec.head_dim);
  const int64_t kv_width = checked_mul(spec.heads, checked_add(latent.nope_dim, latent.value_dim));

  TensorId q = x;
  if (latent.query_rank > 0) {
    q = b.linear(prefix + "q_a_proj", q, latent.query_rank, plain);
    q = b.rms_norm(prefix + "q_a_layernorm", q);
    q = b.linear(prefix + "q_b_proj", q, query_width, plain);
  } else {
    q = b.linear(prefix + "q_proj", q, query_width, plain);
  }
  TensorId kv = b.linear(prefix + "kv_a_proj_with_mqa", x,
                         checked_add(latent.kv_rank, latent.rope_dim), plain);
  kv = graph.add("split_columns", prefix + "kv_a_split", {kv}, {{"columns", latent.kv_rank}});
  const TensorId shared_key = b.last_output(1);
  kv = b.rms_norm(prefix + "kv_a_layernorm", kv);
  kv = b.linear(prefix + "kv_b_proj", kv, kv_width, plain);

  q = graph.add("mla_rope", prefix + "rope", {q, shared_key}, rope_attributes(spec));
  const TensorId rotated_key = b.last_output(1);
  const std::string name = prefix.substr(0, prefix.size() - 1);
  const TensorId o = graph.add("mla_attention", name, {q, kv, rotated_key},
                               {{"heads", spec.heads},
                                {"nope_dim", latent.nope_dim},
                                {"rope_dim", latent.rope_dim},
                                {"value_dim", latent.value_dim},
                                {"scale", softmax_scale(spec)},
                                {"causal", int64_t{1}},
                                {"form", b.options().attention},
                                {"dropout", b.options().training ? b.options().dropout : 0.0},
                                {"key", random_key(name)}});
  return b.linear(prefix + "o_proj", o, spec.hidden, plain);
}

}  // namespace plimsoll
