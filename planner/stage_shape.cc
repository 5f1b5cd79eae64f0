#include "planner/stage_shape.h"

#include "base/error.h"
#include "planner/schedule.h"

#include <algorithm>

namespace plimsoll {

int64_t StageShape::num_layers() const {
  int64_t layers = 0;
  for (const LayerRun& run : runs) layers += run.count;
  return layers;
}

int64_t microbatches_ahead(const Strategy& strategy, int stage, int64_t num_microbatches) {
  if (strategy.pp == 1) return 0;
  if (strategy.schedule == "gpipe") return num_microbatches;
  return std::min<int64_t>(strategy.pp - 1 - stage, num_microbatches);
}

StageShape shape_without_layers(const Strategy& strategy, int stage, int64_t num_microbatches) {
  StageShape shape;
  shape.first = stage == 0;
  shape.last = stage == strategy.pp - 1;
  shape.ahead = microbatches_ahead(strategy, stage, num_microbatches);
  shape.steady = num_microbatches - shape.ahead;
  shape.split = strategy.pp > 1 && splits_backward(*parse_schedule_kind(strategy.schedule));
  if (shape.split) shape.behind = std::min<int64_t>(stage, num_microbatches);
  return shape;
}

StageShape shape_of(const ModelSpec& model, const Job& job, const Strategy& strategy, int stage) {
  const std::vector<int> bounds = stage_bounds(model, strategy);
  StageShape shape = shape_without_layers(strategy, stage, accumulation_steps(strategy, job));
  for (int layer = bounds[static_cast<size_t>(stage)];
       layer < bounds[static_cast<size_t>(stage) + 1]; ++layer) {
    const Recompute recompute = strategy.recompute[static_cast<size_t>(layer)];
    if (shape.runs.empty() || shape.runs.back().recompute != recompute) {
      shape.runs.push_back({recompute, 0});
    }
    ++shape.runs.back().count;
  }
  return shape;
}

bool has_shapes(const ModelSpec& model, const Strategy& strategy) {
  if (strategy.schedule != "gpipe" && strategy.schedule != "1f1b") return false;
  const bool dense_first = model.experts && model.experts->dense_layers > 0;
  return model.layers > 0 && model.family != Family::kResNet && !dense_first;
}

ShapeSample sample_of_shape(const ModelSpec& model, const Job& job, const Strategy& strategy,
                            const StageShape& shape) {
  ShapeSample sample{model, job, strategy, 0};
  const bool all_ahead = shape.steady == 0 && !shape.split;
  PLIMSOLL_CHECK(shape.num_microbatches() > 0, "a stage without micro-batches");
  int behind = 0;
  if (!shape.last) behind = all_ahead ? 1 : static_cast<int>(shape.ahead);
  sample.stage = shape.first ? 0 : shape.split ? static_cast<int>(shape.behind) : 1;
  sample.strategy.pp = sample.stage + behind + 1;
  // With all micro-batches ahead, 1f1b is gpipe.
  if (sample.strategy.pp > 1) {
    sample.strategy.schedule = shape.split ? "zb-h1" : all_ahead ? "gpipe" : "1f1b";
  }
  const int64_t layers = shape.num_layers();
  sample.model.layers = layers + sample.strategy.pp - 1;
  sample.strategy.stage_bounds.clear();
  sample.strategy.recompute.clear();
  for (int stage = 0; stage < sample.strategy.pp; ++stage) {
    const auto first = static_cast<int>(sample.strategy.recompute.size());
    sample.strategy.stage_bounds.push_back(first);
    if (stage != sample.stage) {
      sample.strategy.recompute.push_back(Recompute::kNone);
      continue;
    }
    for (const LayerRun& run : shape.runs) {
      sample.strategy.recompute.insert(sample.strategy.recompute.end(),
                                       static_cast<size_t>(run.count), run.recompute);
    }
  }
  sample.strategy.stage_bounds.push_back(static_cast<int>(sample.strategy.recompute.size()));
  if (sample.strategy.pp == 1) sample.strategy.stage_bounds.clear();
  const int64_t samples_a_microbatch = job.global_batch / accumulation_steps(strategy, job);
  sample.job.global_batch = checked_mul(samples_a_microbatch, shape.num_microbatches());
  return sample;
}

}  // namespace plimsoll
