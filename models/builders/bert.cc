// BERT (Devlin et al. 2018) with its masked-token head: post-norm blocks over the whole sequence.
#include "models/builders/builder.h"

namespace plimsoll {

namespace {

constexpr int64_t kSegments = 2;

TensorId block(Builder& b, const ModelSpec& spec, const std::string& prefix, TensorId x) {
  const LinearOptions plain{.standard_deviation = spec.initializer_range, .parts = {}};
  LinearOptions qkv = plain;
  for (const char* part : {"query", "key", "value"}) {
    qkv.parts.push_back({prefix + "attention.self." + part, spec.hidden});
  }
  TensorId y = b.linear(prefix + "attention.self.qkv", x, checked_mul(3, spec.hidden), qkv);
  y = b.attention(prefix + "attention.self", y, /*causal=*/false);
  y = b.linear(prefix + "attention.output.dense", y, spec.hidden, plain);
  y = b.dropout(prefix + "attention.output.dropout", y);
  x = b.graph().add("residual", prefix + "attention.output.residual", {x, y});
  x = b.layer_norm(prefix + "attention.output.LayerNorm", x);

  y = b.linear(prefix + "intermediate.dense", x, spec.feed_forward, plain);
  y = b.graph().add("gelu", prefix + "intermediate.gelu", {y}, {{"approximate", spec.gelu}});
  y = b.linear(prefix + "output.dense", y, spec.hidden, plain);
  y = b.dropout(prefix + "output.dropout", y);
  x = b.graph().add("residual", prefix + "output.residual", {x, y});
  return b.layer_norm(prefix + "output.LayerNorm", x);
}

}  // namespace

Graph build_bert(const ModelSpec& spec, const BuildOptions& options) {
  Builder b(spec, options);
  Graph& graph = b.graph();
  const TensorId tokens = b.token_input("tokens");
  const TensorId segments = b.token_input("segments");
  const TensorId targets = b.token_input("targets");
  const std::string prefix = "bert.embeddings.";
  const auto table = [&](const std::string& name, int64_t rows) {
    return graph.add_parameter(prefix + name + ".weight", {rows, spec.hidden},
                               normal_weight(spec.initializer_range));
  };
  const TensorId words = table("word_embeddings", spec.vocabulary);
  const TensorId positions = table("position_embeddings", spec.max_positions);
  const TensorId types = table("token_type_embeddings", kSegments);

  TensorId x = graph.add("embedding", prefix + "word_embeddings", {tokens, words});
  const TensorId y = graph.add("embedding", prefix + "token_type_embeddings", {segments, types});
  x = graph.add("residual", prefix + "sum", {x, y});
  x = graph.add("position_embedding", prefix + "position_embeddings", {x, positions});
  x = b.layer_norm(prefix + "LayerNorm", x);
  x = b.dropout(prefix + "dropout", x);
  for (int64_t i = 0; i < spec.layers; ++i) {
    graph.begin_layer(static_cast<int>(i), "bert");
    x = block(b, spec, fmt::format("bert.encoder.layer.{}.", i), x);
    graph.end_layer();
  }

  const std::string head = "cls.predictions.";
  x = b.linear(head + "transform.dense", x, spec.hidden,
               {.standard_deviation = spec.initializer_range, .parts = {}});
  x = graph.add("gelu", head + "transform.gelu", {x}, {{"approximate", spec.gelu}});
  x = b.layer_norm(head + "transform.LayerNorm", x);
  const TensorId bias = graph.add_parameter(head + "bias", {spec.vocabulary},
                                            constant_vector(ParameterInfo::Init::kZero));
  x = graph.add("linear", head + "decoder", {x, words, bias});
  graph.add("cross_entropy", "loss", {x, targets});
  return b.take();
}

}  // namespace plimsoll
