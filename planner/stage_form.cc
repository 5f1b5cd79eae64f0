#include "planner/stage_form.h"

#include "base/error.h"
#include "planner/lower/lower.h"
#include "planner/stage_times.h"

#include <algorithm>
#include <tuple>

namespace plimsoll {

namespace {

// Where an instruction is, in words that hold for a stage with more layers too.
struct PointKey {
  int phase = 0;
  int segment = 0;
  int kind = 0;       // of the iteration
  int run = -1;       // -1 outside the layers
  int64_t layer = 0;  // of a run at its bound: from its start, or negative from its end
  int number = 0;     // among the instructions of the layer in the body
  friend auto operator<=>(const PointKey&, const PointKey&) = default;
};

struct SamplePoint {
  PointKey key;
  int64_t bytes = 0;       // without norm terms
  int64_t norm_terms = 0;  // buffers of them
  CategoryBytes by_category{};
};

struct Sample {
  std::vector<SamplePoint> points;  // in the program's order
  StageTimes times{};
  int64_t num_norm_terms = 0;  // elements of such a buffer
};

// The squared norms of a stage's gradients, one element each in one buffer: the only size that the
// alignment keeps from growing by the same bytes with every layer. In samples it gets one that no
// other bytes come near, so that a point's sum says how many of them are live.
constexpr int64_t kNormTermsMark = int64_t{1} << 50;

int64_t mark_norm_terms(StepProgram& program) {
  int64_t elements = 0;
  for (Buffer& buffer : program.buffers) {
    if (buffer.name.find("norm_terms") == std::string::npos) continue;
    elements = buffer.shape.front();
    buffer.shape = {kNormTermsMark / dtype_bytes(buffer.dtype)};
  }
  return elements;
}

constexpr int64_t kOuterLayers = kMostLayers / 2;  // at either end of a run

// The position of a layer; nothing for the inner ones, which lie between the outer in bytes.
std::optional<std::pair<int, int64_t>> position_of(const StageShape& shape, int64_t layer) {
  for (size_t run = 0; run < shape.runs.size(); ++run) {
    const int64_t count = shape.runs[run].count;
    if (layer >= count) {
      layer -= count;
      continue;
    }
    const bool from_start = count < kMostLayers || layer < kOuterLayers;
    if (from_start) return std::pair(static_cast<int>(run), layer);
    if (layer < count - kOuterLayers) return std::nullopt;
    return std::pair(static_cast<int>(run), layer - count);
  }
  PLIMSOLL_CHECK(false, "layer {} beyond the stage", layer);
  return std::nullopt;
}

Sample take_sample(const ModelSpec& model, const Cluster& cluster, const Job& job,
                   const Strategy& strategy, const StageShape& shape) {
  const ShapeSample small = sample_of_shape(model, job, strategy, shape);
  StepProgram program =
      StageLowering(small.model, small.job, small.strategy, {}).unplaced(small.stage);
  const int first_layer =
      stage_bounds(small.model, small.strategy)[static_cast<size_t>(small.stage)];
  Sample sample;
  sample.times = stage_times(program, cluster);
  sample.num_norm_terms = mark_norm_terms(program);
  const MemoryTimeline timeline = compute_timeline(program);
  for (size_t p = 0; p < program.phases.size(); ++p) {
    // Numbers of the instructions among their layer's, for each body.
    std::vector<std::vector<int>> numbers;
    for (const Segment& segment : program.phases[p].segments) {
      std::vector<int> seen(static_cast<size_t>(small.model.layers) + 1, 0);
      numbers.emplace_back();
      for (const Instruction& instruction : segment.body) {
        numbers.back().push_back(seen[static_cast<size_t>(instruction.layer + 1)]++);
      }
    }
    for (const TimelinePoint& point : timeline.phases[p].points) {
      const FoldedPosition& at = point.folded;
      const auto segment = static_cast<size_t>(at.segment);
      const int layer =
          program.phases[p].segments[segment].body[static_cast<size_t>(at.index)].layer;
      PointKey key{static_cast<int>(p),
                   at.segment,
                   static_cast<int>(at.kind),
                   -1,
                   0,
                   numbers[segment][static_cast<size_t>(at.index)]};
      if (layer >= 0) {
        const auto position = position_of(shape, layer - first_layer);
        if (!position) continue;
        std::tie(key.run, key.layer) = *position;
      }
      const int64_t marks = point.live_bytes / kNormTermsMark;
      CategoryBytes by_category = point.by_category;
      by_category[static_cast<size_t>(Category::kWorkspace)] -= marks * kNormTermsMark;
      sample.points.push_back({key, point.live_bytes - marks * kNormTermsMark, marks, by_category});
    }
  }
  return sample;
}

CategoryBytes difference(const CategoryBytes& a, const CategoryBytes& b) {
  CategoryBytes out{};
  for (size_t i = 0; i < out.size(); ++i) out[i] = a[i] - b[i];
  return out;
}

}  // namespace

StageForm::StageForm(const ModelSpec& model, const Cluster& cluster, const Job& job,
                     const Strategy& strategy, const StageShape& base)
    : base_(base), ahead_grows_(base.ahead == kMostAhead) {
  for (size_t run = 0; run < base.runs.size(); ++run) {
    if (base.runs[run].count == kMostLayers) grown_runs_.push_back(run);
  }
  PLIMSOLL_CHECK(grown_runs_.size() <= kMostLongRuns, "{} runs of many layers", grown_runs_.size());
  const auto sample = [&](std::optional<size_t> run, bool ahead) {
    StageShape shape = base;
    if (run) ++shape.runs[*run].count;
    if (ahead) ++shape.ahead;
    return take_sample(model, cluster, job, strategy, shape);
  };
  const Sample at_base = sample({}, false);
  times_ = at_base.times;
  norm_terms_ = at_base.num_norm_terms;
  // What is added to a point by each growth is the difference of two or four samples.
  std::vector<Sample> by_run;
  std::vector<Sample> by_both;
  for (size_t i = 0; i < grown_runs_.size(); ++i) {
    by_run.push_back(sample(grown_runs_[i], false));
    norm_terms_growth_[i] = by_run.back().num_norm_terms - norm_terms_;
    for (size_t t = 0; t < kNumStageTimes; ++t) {
      time_growth_[i][t] = by_run.back().times[t] - times_[t];
    }
    if (ahead_grows_) by_both.push_back(sample(grown_runs_[i], true));
  }
  std::optional<Sample> by_ahead;
  if (ahead_grows_) by_ahead = sample({}, true);
  num_growths_ = grown_runs_.size() + (ahead_grows_ ? 1 + grown_runs_.size() : 0);

  const auto by_key = [](const Sample& taken) {
    std::map<PointKey, const SamplePoint*> points;
    for (const SamplePoint& point : taken.points) points.emplace(point.key, &point);
    return points;
  };
  using Points = std::map<PointKey, const SamplePoint*>;
  std::vector<Points> run_points;
  std::vector<Points> both_points;
  for (const Sample& taken : by_run) run_points.push_back(by_key(taken));
  for (const Sample& taken : by_both) both_points.push_back(by_key(taken));
  const Points ahead_points = by_ahead ? by_key(*by_ahead) : Points{};
  const auto find = [&](const Points& points, const PointKey& key) -> const SamplePoint& {
    const auto at = points.find(key);
    PLIMSOLL_CHECK(at != points.end(), "an instruction of segment {} is not in the larger stage",
                   key.segment);
    return *at->second;
  };
  for (const SamplePoint& at : at_base.points) {
    Point point{at.bytes, at.norm_terms, {}, at.by_category, {}};
    size_t g = 0;
    const auto grow = [&](int64_t bytes, const CategoryBytes& by_category) {
      point.growth[g] = bytes;
      point.category_growth[g++] = by_category;
    };
    for (const Points& points : run_points) {
      const SamplePoint& more = find(points, at.key);
      grow(more.bytes - at.bytes, difference(more.by_category, at.by_category));
    }
    if (ahead_grows_) {
      const SamplePoint& more = find(ahead_points, at.key);
      grow(more.bytes - at.bytes, difference(more.by_category, at.by_category));
      for (size_t i = 0; i < both_points.size(); ++i) {
        const SamplePoint& both = find(both_points[i], at.key);
        const SamplePoint& of_run = find(run_points[i], at.key);
        grow(both.bytes - of_run.bytes - (more.bytes - at.bytes),
             difference(difference(both.by_category, of_run.by_category),
                        difference(more.by_category, at.by_category)));
      }
    }
    points_.push_back(point);
  }
  keep_undominated();
}

// A point is of no use when another has at least as many bytes whatever the counts; of equals the
// first stays.
void StageForm::keep_undominated() {
  const auto dominates = [&](const Point& a, const Point& b) {
    bool at_least = a.bytes >= b.bytes && a.norm_terms >= b.norm_terms;
    for (size_t g = 0; g < num_growths_; ++g) at_least = at_least && a.growth[g] >= b.growth[g];
    return at_least;
  };
  std::vector<Point> kept;
  for (const Point& point : points_) {
    if (std::any_of(kept.begin(), kept.end(),
                    [&](const Point& other) { return dominates(other, point); })) {
      continue;
    }
    // With equal bytes here the earlier one is the peak of the base.
    std::erase_if(kept, [&](const Point& other) {
      return point.bytes > other.bytes && dominates(point, other);
    });
    kept.push_back(point);
  }
  points_ = std::move(kept);
}

StageForm::Growth StageForm::beyond_base(const StageShape& shape) const {
  Growth beyond{};
  const int64_t ahead = shape.ahead - base_.ahead;
  const size_t runs = grown_runs_.size();
  for (size_t i = 0; i < runs; ++i) {
    const int64_t layers = shape.runs[grown_runs_[i]].count - kMostLayers;
    beyond[i] = layers;
    if (ahead_grows_) beyond[runs + 1 + i] = layers * ahead;
  }
  if (ahead_grows_) beyond[runs] = ahead;
  return beyond;
}

// Of one buffer of norm terms, in the arena.
int64_t StageForm::norm_terms_bytes(const StageShape& shape) const {
  int64_t terms = norm_terms_;
  for (size_t i = 0; i < grown_runs_.size(); ++i) {
    terms += norm_terms_growth_[i] * (shape.runs[grown_runs_[i]].count - kMostLayers);
  }
  return align_up(terms * dtype_bytes(DType::kF64), Header{}.alignment);
}

int64_t StageForm::bytes_at(const Point& point, const Growth& beyond, int64_t terms_bytes) const {
  int64_t bytes = point.bytes + point.norm_terms * terms_bytes;
  for (size_t g = 0; g < num_growths_; ++g) bytes += beyond[g] * point.growth[g];
  return bytes;
}

int64_t StageForm::live_peak(const StageShape& shape) const {
  const Growth beyond = beyond_base(shape);
  const int64_t terms_bytes = norm_terms_bytes(shape);
  int64_t most = 0;
  for (const Point& point : points_) most = std::max(most, bytes_at(point, beyond, terms_bytes));
  return most;
}

StagePeak StageForm::peak(const StageShape& shape) const {
  const Growth beyond = beyond_base(shape);
  const int64_t terms_bytes = norm_terms_bytes(shape);
  const Point* top = nullptr;
  StagePeak peak;
  for (const Point& point : points_) {
    const int64_t bytes = bytes_at(point, beyond, terms_bytes);
    if (bytes <= peak.live_bytes) continue;
    peak.live_bytes = bytes;
    top = &point;
  }
  if (top == nullptr) return peak;
  peak.by_category = top->by_category;
  peak.by_category[static_cast<size_t>(Category::kWorkspace)] += top->norm_terms * terms_bytes;
  for (size_t g = 0; g < num_growths_; ++g) {
    for (size_t c = 0; c < peak.by_category.size(); ++c) {
      peak.by_category[c] += beyond[g] * top->category_growth[g][c];
    }
  }
  return peak;
}

StageTimes StageForm::times(const StageShape& shape) const {
  StageTimes times = times_;
  for (size_t i = 0; i < grown_runs_.size(); ++i) {
    const auto layers = static_cast<double>(shape.runs[grown_runs_[i]].count - kMostLayers);
    for (size_t t = 0; t < kNumStageTimes; ++t) times[t] += layers * time_growth_[i][t];
  }
  return times;
}

const StageForm& StageForms::form_of(const StageShape& shape) {
  StageShape base = shape;
  for (LayerRun& run : base.runs) run.count = std::min(run.count, kMostLayers);
  base.ahead = std::min(base.ahead, kMostAhead);
  base.steady = std::min(base.steady, kMostSteady);
  const auto at = forms_.find(base);
  if (at != forms_.end()) return at->second;
  return forms_.emplace(base, StageForm(model_, cluster_, job_, strategy_, base)).first->second;
}

}  // namespace plimsoll
