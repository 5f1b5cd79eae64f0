// Linear layers with ReLU between them; squared error, or classes when the spec names some.
#include "models/builders/builder.h"

#include <cmath>

namespace plimsoll {

Graph build_mlp(const ModelSpec& spec, const BuildOptions& options) {
  Builder b(spec, options);
  Graph& graph = b.graph();
  const TensorId features =
      graph.add_input("features", {{options.micro_batch, spec.inputs}, options.float_type});
  TensorId x = features;
  for (int64_t i = 0; i < spec.layers; ++i) {
    const int64_t width = graph.type(x).last();
    // The first layer differs from the others: its input needs no gradient.
    const char* kind = i == 0 ? "mlp.first" : "mlp";
    graph.begin_layer(static_cast<int>(i), fmt::format("{}.{}x{}", kind, width, spec.hidden));
    // He et al. 2015: keeps the variance through a rectifier.
    const double deviation = std::sqrt(2.0 / static_cast<double>(width));
    const std::string name = fmt::format("layers.{}", i);
    x = b.linear(name, x, spec.hidden, {.standard_deviation = deviation, .parts = {}});
    x = graph.add("relu", name + ".relu", {x});
    x = b.dropout(name + ".dropout", x);
    graph.end_layer();
  }
  const double deviation = std::sqrt(1.0 / static_cast<double>(graph.type(x).last()));
  const LinearOptions head{.standard_deviation = deviation, .parts = {}};
  if (spec.objective == Objective::kClasses) {
    b.class_loss(b.linear("head", x, spec.classes, head));
    return b.take();
  }
  x = b.linear("head", x, spec.outputs, head);
  const TensorId values =
      graph.add_input("values", {{options.micro_batch, spec.outputs}, options.float_type});
  graph.add("mse", "loss", {x, values});
  return b.take();
}

}  // namespace plimsoll
