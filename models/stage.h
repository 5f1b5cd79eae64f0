// The part of a model that one pipeline stage runs.
#pragma once

#include "models/graph.h"

#include <vector>

namespace plimsoll {

// A cut of the layers into contiguous stages: the first layer of each stage, ascending from 0, and
// one more entry, the number of layers.
using StageBounds = std::vector<int>;

// Layers as even as they go, earlier stages the smaller. Throws Error (exit 2) when there are fewer
// layers than stages.
[[nodiscard]] StageBounds even_stages(int num_layers, int num_stages);

// The ops of stage `stage`: its layers; before them, for the first stage, what comes before the
// layers (embeddings), and after them, for the last, what follows (head, loss). Tensors that come
// from earlier stages become the graph's stage inputs, what later stages need its stage outputs. A
// parameter used by two stages is a parameter of both.
[[nodiscard]] Graph take_stage(const Graph& graph, const StageBounds& bounds, int stage);

// Names of parameters that ops of more than one stage use (tied embeddings).
[[nodiscard]] std::vector<std::string> shared_parameters(const Graph& graph,
                                                         const StageBounds& bounds);

}  // namespace plimsoll
