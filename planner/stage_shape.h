// What of a pipeline stage decides its program: where it stands and what its layers are.
//
// Two stages of one shape have the same program but for names. A shape with more layers or more
// micro-batches than a small one has the same instructions more often, which is what
// planner/stage_form.h makes use of.
#pragma once

#include "models/model.h"
#include "planner/job.h"
#include "planner/strategy.h"

#include <cstdint>
#include <vector>

namespace plimsoll {

// Layers in a row that are treated alike.
struct LayerRun {
  Recompute recompute = Recompute::kNone;
  int64_t count = 0;
  friend auto operator<=>(const LayerRun&, const LayerRun&) = default;
};

struct StageShape {
  bool first = true;  // has what comes before the layers (embedding)
  bool last = true;   // has what follows them (head, loss)
  // Micro-batches whose forward runs before the first backward, and those that are left then.
  int64_t ahead = 0;
  int64_t steady = 1;
  // Zero bubble: the backward has two parts, and the weights' part is so many micro-batches behind.
  bool split = false;
  int64_t behind = 0;
  std::vector<LayerRun> runs;  // in the model's order, none empty

  [[nodiscard]] int64_t num_microbatches() const { return ahead + steady; }

  [[nodiscard]] int64_t num_layers() const;
  friend auto operator<=>(const StageShape&, const StageShape&) = default;
};

// Micro-batches that run ahead on a stage of the strategy's schedule (gpipe, 1f1b or zb-h1).
[[nodiscard]] int64_t microbatches_ahead(const Strategy& strategy, int stage,
                                         int64_t num_microbatches);

// The shape of a stage but for its layers.
[[nodiscard]] StageShape shape_without_layers(const Strategy& strategy, int stage,
                                              int64_t num_microbatches);

// The shape of stage `stage`. Precondition: has_shapes(model, strategy), or the schedule is zb-h1
// and the layers are alike.
[[nodiscard]] StageShape shape_of(const ModelSpec& model, const Job& job, const Strategy& strategy,
                                  int stage);

// Whether all layers of the model are alike (a ResNet's blocks differ, and so do the first layers
// of DeepSeek-V3) and the schedule is one whose stages a search puts together from shapes: zb-h1
// has shapes and forms too, but no search arranges its stages.
[[nodiscard]] bool has_shapes(const ModelSpec& model, const Strategy& strategy);

// A small job and pipeline in which stage `stage` has the shape, everything else as in `strategy`.
struct ShapeSample {
  ModelSpec model;
  Job job;
  Strategy strategy;
  int stage = 0;
};
[[nodiscard]] ShapeSample sample_of_shape(const ModelSpec& model, const Job& job,
                                          const Strategy& strategy, const StageShape& shape);

}  // namespace plimsoll
