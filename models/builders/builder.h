// What the builders of the families share: ops with their parameters in one call.
//
// Parameters and ops carry the names that the family's exported files use.
#pragma once

#include "models/graph.h"
#include "models/model.h"

#include <string>
#include <vector>

namespace plimsoll {

[[nodiscard]] Graph build_mlp(const ModelSpec& spec, const BuildOptions& options);
[[nodiscard]] Graph build_resnet(const ModelSpec& spec, const BuildOptions& options);
[[nodiscard]] Graph build_gpt2(const ModelSpec& spec, const BuildOptions& options);
[[nodiscard]] Graph build_llama(const ModelSpec& spec, const BuildOptions& options);  // and moe
[[nodiscard]] Graph build_bert(const ModelSpec& spec, const BuildOptions& options);
[[nodiscard]] Graph build_vit(const ModelSpec& spec, const BuildOptions& options);

// The stream of random numbers of an op: 63 bits of its name's hash, an integer attribute.
[[nodiscard]] int64_t random_key(const std::string& name);

[[nodiscard]] ParameterInfo normal_weight(double standard_deviation);
[[nodiscard]] ParameterInfo constant_vector(ParameterInfo::Init init);

// How a linear layer's tensors are named and begin; a fused one lists its row ranges outside.
struct LinearOptions {
  double standard_deviation = 0.02;
  bool bias = true;
  bool transposed = false;  // stored as (in, out) outside
  struct Part {
    std::string name;  // of the part, without ".weight" or ".bias"
    int64_t rows = 0;
  };
  std::vector<Part> parts;
  std::string weight_suffix = ".weight";
  std::string bias_suffix = ".bias";
};

class Builder {
 public:
  Builder(const ModelSpec& spec, const BuildOptions& options)
      : spec_(spec),
        options_(options),
        graph_(options.save_rules, options.float_type, options.training) {}

  [[nodiscard]] Graph& graph() { return graph_; }
  [[nodiscard]] const ModelSpec& spec() const { return spec_; }
  [[nodiscard]] const BuildOptions& options() const { return options_; }
  [[nodiscard]] Graph take() { return std::move(graph_); }

  // Output i of the op added last.
  [[nodiscard]] TensorId last_output(size_t i) const {
    return graph_.op(boost::num_vertices(graph_.ops()) - 1).outputs[i];
  }

  TensorId token_input(const std::string& field);  // i32 [B, T]
  TensorId image_input();                          // F [N, C, H, W]

  TensorId linear(const std::string& name, TensorId x, int64_t width, const LinearOptions& how);
  TensorId layer_norm(const std::string& name, TensorId x);
  TensorId rms_norm(const std::string& name, TensorId x);
  // Attention over packed qkv in the options' form, with the options' dropout of probabilities.
  TensorId attention(const std::string& name, TensorId qkv, bool causal);
  // x itself outside training or when the options drop nothing.
  TensorId dropout(const std::string& name, TensorId x);
  // The loss of logits = x weight^T over next tokens, fused in chunks when the options ask for it.
  TensorId language_head(const std::string& name, TensorId x, TensorId weight, TensorId targets);
  TensorId class_loss(TensorId logits);  // against "labels" i32 [N]

 private:
  const ModelSpec& spec_;
  const BuildOptions& options_;
  Graph graph_;
};

}  // namespace plimsoll
