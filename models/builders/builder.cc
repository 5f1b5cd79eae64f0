#include "models/builders/builder.h"

#include "base/rng.h"

namespace plimsoll {

int64_t random_key(const std::string& name) {
  return static_cast<int64_t>(rng_purpose(name) & 0x7FFFFFFFFFFFFFFFULL);
}

ParameterInfo normal_weight(double standard_deviation) {
  return {.init = ParameterInfo::Init::kNormal,
          .scale = standard_deviation,
          .matrix = true,
          .parts = {}};
}

ParameterInfo constant_vector(ParameterInfo::Init init) {
  return {.init = init, .scale = 0, .matrix = false, .parts = {}};
}

TensorId Builder::token_input(const std::string& field) {
  return graph_.add_input(field, {{options_.micro_batch, options_.seq}, DType::kI32});
}

TensorId Builder::image_input() {
  return graph_.add_input(
      "images", {{options_.micro_batch, spec_.channels, spec_.image_size, spec_.image_size},
                 options_.float_type});
}

TensorId Builder::linear(const std::string& name, TensorId x, int64_t width,
                         const LinearOptions& how) {
  ParameterInfo weight = normal_weight(how.standard_deviation);
  ParameterInfo bias = constant_vector(ParameterInfo::Init::kZero);
  for (const LinearOptions::Part& part : how.parts) {
    weight.parts.push_back({part.name + how.weight_suffix, part.rows, how.transposed});
    bias.parts.push_back({part.name + how.bias_suffix, part.rows, false});
  }
  if (how.parts.empty()) weight.parts = {{name + how.weight_suffix, width, how.transposed}};
  const Shape shape{width, graph_.type(x).last()};
  const TensorId w = graph_.add_parameter(name + how.weight_suffix, shape, std::move(weight));
  const TensorId b =
      how.bias ? graph_.add_parameter(name + how.bias_suffix, {width}, std::move(bias)) : kNoTensor;
  return graph_.add("linear", name, {x, w, b});
}

TensorId Builder::layer_norm(const std::string& name, TensorId x) {
  const Shape shape{graph_.type(x).last()};
  const TensorId w =
      graph_.add_parameter(name + ".weight", shape, constant_vector(ParameterInfo::Init::kOne));
  const TensorId b =
      graph_.add_parameter(name + ".bias", shape, constant_vector(ParameterInfo::Init::kZero));
  return graph_.add("layer_norm", name, {x, w, b}, {{"epsilon", spec_.norm_epsilon}});
}

TensorId Builder::rms_norm(const std::string& name, TensorId x) {
  const TensorId w = graph_.add_parameter(name + ".weight", {graph_.type(x).last()},
                                          constant_vector(ParameterInfo::Init::kOne));
  return graph_.add("rms_norm", name, {x, w}, {{"epsilon", spec_.norm_epsilon}});
}

TensorId Builder::attention(const std::string& name, TensorId qkv, bool causal) {
  return graph_.add("attention", name, {qkv},
                    {{"heads", spec_.heads},
                     {"kv_heads", spec_.kv_heads},
                     {"head_dim", spec_.head_dim},
                     {"causal", int64_t{causal ? 1 : 0}},
                     {"form", options_.attention},
                     {"dropout", options_.training ? options_.dropout : 0.0},
                     {"key", random_key(name)}});
}

TensorId Builder::dropout(const std::string& name, TensorId x) {
  if (!options_.training || options_.dropout == 0) return x;
  return graph_.add("dropout", name, {x}, {{"p", options_.dropout}, {"key", random_key(name)}});
}

TensorId Builder::language_head(const std::string& name, TensorId x, TensorId weight,
                                TensorId targets) {
  if (options_.loss_chunks > 1) {
    return graph_.add("linear_cross_entropy", "loss", {x, weight, targets},
                      {{"chunks", options_.loss_chunks}});
  }
  const TensorId logits = graph_.add("linear", name, {x, weight, kNoTensor});
  return graph_.add("cross_entropy", "loss", {logits, targets});
}

TensorId Builder::class_loss(TensorId logits) {
  const TensorId labels = graph_.add_input("labels", {{options_.micro_batch}, DType::kI32});
  return graph_.add("cross_entropy", "loss", {logits, labels});
}

}  // namespace plimsoll
