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
  sample.times = stage_times(program, cluster, shape.split);
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

using Points = std::map<PointKey, const SamplePoint*>;

Points by_key(const Sample& taken) {
  Points points;
  for (const SamplePoint& point : taken.points) points.emplace(point.key, &point);
  return points;
}

struct Grown {
  int64_t bytes = 0;
  CategoryBytes by_category{};
  Grown operator-(const Grown& other) const {
    Grown out{bytes - other.bytes, by_category};
    for (size_t i = 0; i < out.by_category.size(); ++i) {
      out.by_category[i] -= other.by_category[i];
    }
    return out;
  }
};

Grown find(const Points& points, const PointKey& key) {
  const auto at = points.find(key);
  PLIMSOLL_CHECK(at != points.end(), "an instruction of segment {} is not in the larger stage",
                 key.segment);
  return {at->second->bytes, at->second->by_category};
}

// A split backward has the same segments whatever the counts when some micro-batches are left that
// are neither ahead nor behind.
bool is_regular(const StageShape& shape) { return !shape.split || shape.steady > shape.behind; }

}  // namespace

StageForm::StageForm(const ModelSpec& model, const Cluster& cluster, const Job& job,
                     const Strategy& strategy, const StageShape& base)
    : base_(base),
      ahead_grows_(base.ahead == kMostAhead && is_regular(base)),
      behind_grows_(base.behind == kMostBehind && is_regular(base)) {
  for (size_t run = 0; run < base.runs.size(); ++run) {
    if (base.runs[run].count == kMostLayers) grown_runs_.push_back(run);
  }
  PLIMSOLL_CHECK(grown_runs_.size() <= kMostLongRuns, "{} runs of many layers", grown_runs_.size());
  // Samples of the base with more micro-batches of a kind, and with one more layer of a run each.
  const auto sample = [&](int64_t ahead, int64_t behind) {
    std::vector<Sample> taken;
    StageShape shape = base;
    shape.ahead += ahead;
    shape.behind += behind;
    shape.steady += behind;
    taken.push_back(take_sample(model, cluster, job, strategy, shape));
    for (const size_t run : grown_runs_) {
      StageShape more = shape;
      ++more.runs[run].count;
      taken.push_back(take_sample(model, cluster, job, strategy, more));
    }
    return taken;
  };
  const std::vector<Sample> plain = sample(0, 0);
  std::vector<std::vector<Sample>> grown;
  if (ahead_grows_) grown.push_back(sample(1, 0));
  if (behind_grows_) grown.push_back(sample(0, 1));
  const size_t runs = grown_runs_.size();
  num_growths_ = runs + grown.size() * (1 + runs);
  times_ = plain[0].times;
  norm_terms_ = plain[0].num_norm_terms;
  for (size_t i = 0; i < runs; ++i) {
    norm_terms_growth_[i] = plain[1 + i].num_norm_terms - norm_terms_;
    for (size_t t = 0; t < kNumStageTimes; ++t) {
      time_growth_[i][t] = plain[1 + i].times[t] - times_[t];
    }
  }

  std::vector<Points> points_of;
  for (const Sample& taken : plain) points_of.push_back(by_key(taken));
  for (const std::vector<Sample>& samples : grown) {
    for (const Sample& taken : samples) points_of.push_back(by_key(taken));
  }
  for (const SamplePoint& at : plain[0].points) {
    Point point{at.bytes, at.norm_terms, {}, at.by_category, {}};
    std::vector<Grown> sums;  // bytes at the instruction, in the order of points_of
    for (const Points& points : points_of) sums.push_back(find(points, at.key));
    size_t g = 0;
    const auto grow = [&](const Grown& by) {
      point.growth[g] = by.bytes;
      point.category_growth[g++] = by.by_category;
    };
    for (size_t i = 0; i < runs; ++i) grow(sums[1 + i] - sums[0]);
    for (size_t k = 0; k < grown.size(); ++k) {
      const size_t first = (1 + k) * (1 + runs);
      const Grown alone = sums[first] - sums[0];
      grow(alone);
      for (size_t i = 0; i < runs; ++i) grow(sums[first + 1 + i] - sums[1 + i] - alone);
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
  const size_t runs = grown_runs_.size();
  size_t g = 0;
  for (; g < runs; ++g) beyond[g] = shape.runs[grown_runs_[g]].count - kMostLayers;
  const auto grow = [&](int64_t microbatches) {
    beyond[g++] = microbatches;
    for (size_t i = 0; i < runs; ++i) beyond[g++] = beyond[i] * microbatches;
  };
  if (ahead_grows_) grow(shape.ahead - base_.ahead);
  if (behind_grows_) grow(shape.behind - base_.behind);
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
  if (is_regular(shape)) {
    base.ahead = std::min(base.ahead, kMostAhead);
    base.behind = std::min(base.behind, kMostBehind);
    base.steady = base.behind + std::min(shape.steady - shape.behind, kMostSteady);
  }
  const auto at = forms_.find(base);
  if (at != forms_.end()) return at->second;
  return forms_.emplace(base, StageForm(model_, cluster_, job_, strategy_, base)).first->second;
}

}  // namespace plimsoll
