// Vision transformer (Dosovitskiy et al. 2020), torchvision's names: patches by a convolution, a
// class token, learned positions, pre-norm blocks.
#include "models/builders/builder.h"

#include <cmath>

namespace plimsoll {

namespace {

TensorId block(Builder& b, const ModelSpec& spec, const std::string& prefix, TensorId x) {
  const LinearOptions plain{.standard_deviation = spec.initializer_range, .parts = {}};
  LinearOptions qkv = plain;
  qkv.weight_suffix = "_weight";
  qkv.bias_suffix = "_bias";

  TensorId y = b.layer_norm(prefix + "ln_1", x);
  y = b.linear(prefix + "self_attention.in_proj", y, checked_mul(3, spec.hidden), qkv);
  y = b.attention(prefix + "self_attention", y, /*causal=*/false);
  y = b.linear(prefix + "self_attention.out_proj", y, spec.hidden, plain);
  y = b.dropout(prefix + "dropout", y);
  x = b.graph().add("residual", prefix + "self_attention.residual", {x, y});

  y = b.layer_norm(prefix + "ln_2", x);
  y = b.linear(prefix + "mlp.0", y, spec.feed_forward, plain);
  y = b.graph().add("gelu", prefix + "mlp.1", {y}, {{"approximate", spec.gelu}});
  y = b.linear(prefix + "mlp.3", y, spec.hidden, plain);
  y = b.dropout(prefix + "mlp.4", y);
  return b.graph().add("residual", prefix + "mlp.residual", {x, y});
}

}  // namespace

Graph build_vit(const ModelSpec& spec, const BuildOptions& options) {
  if (spec.image_size % spec.patch != 0) {
    throw bad_input(fmt::format("{}: images of {} pixels cannot be cut into patches of {}",
                                spec.name, spec.image_size, spec.patch));
  }
  Builder b(spec, options);
  Graph& graph = b.graph();
  const TensorId images = b.image_input();
  const int64_t fan_in = checked_mul(spec.channels, checked_mul(spec.patch, spec.patch));
  const TensorId patch_weight =
      graph.add_parameter("conv_proj.weight", {spec.hidden, spec.channels, spec.patch, spec.patch},
                          normal_weight(std::sqrt(1.0 / static_cast<double>(fan_in))));
  const TensorId patch_bias = graph.add_parameter("conv_proj.bias", {spec.hidden},
                                                  constant_vector(ParameterInfo::Init::kZero));
  const TensorId class_token = graph.add_parameter("class_token", {spec.hidden},
                                                   constant_vector(ParameterInfo::Init::kZero));

  TensorId x = graph.add("conv2d", "conv_proj", {images, patch_weight, patch_bias},
                         {{"stride", spec.patch}, {"padding", int64_t{0}}});
  x = graph.add("image_to_tokens", "conv_proj.tokens", {x});
  x = graph.add("prepend_token", "class_token.prepended", {x, class_token});
  const TensorId positions =
      graph.add_parameter("encoder.pos_embedding", {graph.type(x).shape[1], spec.hidden},
                          normal_weight(spec.initializer_range));
  x = graph.add("position_embedding", "encoder.positions", {x, positions});
  x = b.dropout("encoder.dropout", x);
  for (int64_t i = 0; i < spec.layers; ++i) {
    graph.begin_layer(static_cast<int>(i), "vit");
    x = block(b, spec, fmt::format("encoder.layers.encoder_layer_{}.", i), x);
    graph.end_layer();
  }
  // The norm works row by row, so only the class token needs it.
  x = graph.add("select_token", "class_token.selected", {x}, {{"index", int64_t{0}}});
  x = b.layer_norm("encoder.ln", x);
  b.class_loss(b.linear("heads.head", x, spec.classes,
                        {.standard_deviation = spec.initializer_range, .parts = {}}));
  return b.take();
}

}  // namespace plimsoll
