// The closed form of a pipeline stage: its live peak to the byte and the times of its passes, for
// any number of layers and micro-batches, without lowering it.
//
// It is read off small programs. A stage of many equal layers has the instructions of one of a few
// layers, more often: an instruction of a layer sees a sum of live bytes that grows by the same
// amount with every further layer of a run and every further micro-batch ahead or, where the
// backward is split, behind (of which each layer keeps as much). So the live bytes of each
// instruction of a small stage, and of the same stage with a layer, a micro-batch or both more,
// give a function that is linear in each of the counts, and the peak is the largest of those
// functions; an inner layer of a run lies between the outer ones. Counts at or below the bounds
// here are lowered as they are, and so is a split backward with too few micro-batches for a steady
// part. Holds for shapes of
// planner/stage_shape.h; a property test compares with programs.
#pragma once

#include "costmodel/cluster.h"
#include "planner/stage_shape.h"
#include "program/timeline.h"

#include <array>
#include <map>
#include <memory>
#include <vector>

namespace plimsoll {

// From these on, forms are linear.
inline constexpr int64_t kMostLayers = 4;  // of a run
inline constexpr int64_t kMostAhead = 3;
inline constexpr int64_t kMostBehind = 3;
inline constexpr int64_t kMostSteady = 3;
// Runs of at least kMostLayers in a stage: one for each kind of recompute.
inline constexpr size_t kMostLongRuns = 3;

// Seconds of one stage with its messages there when asked for and free to leave: what a step takes
// at least is made of these (planner/step_bound.h). Forward parts are of a micro-batch that runs
// ahead, on the last stage of one with its backward; a "path" is the longest chain of instructions
// from a message's arrival (or the body's start) to the sending of the next.
enum StageTime : size_t {
  kBeginSeconds,        // segments before the micro-batches
  kForwardSeconds,      // body of a micro-batch that runs ahead
  kSteadySeconds,       // body of forward and backward
  kBackwardSeconds,     // body of a backward alone
  kEndSeconds,          // segments after the micro-batches
  kForwardPath,         // activation arrives -> activation is sent, in the forward body
  kForwardRest,         // activation arrives -> the forward body ends
  kTurnPath,            // activation arrives -> gradient is sent, in the steady body
  kTurnRest,            // activation arrives -> the steady body ends
  kSteadyBackwardPath,  // gradient arrives -> gradient is sent, in the steady body
  kSteadyBackwardRest,  // gradient arrives -> the steady body ends
  kBackwardPath,        // the same in the body of a backward alone
  kBackwardRest,
  kBackwardLead,  // that body starts -> gradient is sent
  kSteadyLead,    // the steady body starts -> gradient is sent
  // A split backward: above, "steady" and "backward" bodies have a weights' part. These have none.
  kHeldSeconds,  // body of forward and backward
  kHeldTurnPath,
  kHeldTurnRest,
  kHeldBackwardPath,
  kHeldBackwardRest,
  kHeldLead,
  kInputSeconds,  // body of a backward alone
  kInputPath,
  kInputRest,
  kInputLead,
  kWeightSeconds,    // body of a weights' part alone
  kForwardMessage,   // transfer of the activations that leave
  kBackwardMessage,  // transfer of the gradients that leave
  kNumStageTimes,
};
using StageTimes = std::array<double, kNumStageTimes>;

struct StagePeak {
  int64_t live_bytes = 0;
  CategoryBytes by_category{};  // at the first instruction with the largest sum
};

// The form of all shapes that differ from one another in counts beyond the bounds alone.
class StageForm {
 public:
  // Lowers `base` and its neighbours, `base` with counts of at most the bounds. Throws Error
  // (exit 2) when strategy, job and model do not go together.
  StageForm(const ModelSpec& model, const Cluster& cluster, const Job& job,
            const Strategy& strategy, const StageShape& base);

  // Precondition: `shape` is the base where counts are below the bounds.
  [[nodiscard]] int64_t live_peak(const StageShape& shape) const;
  [[nodiscard]] StagePeak peak(const StageShape& shape) const;
  [[nodiscard]] StageTimes times(const StageShape& shape) const;

 private:
  // Runs of layers at their bound; micro-batches ahead, and their products with layers; the same of
  // those behind.
  static constexpr size_t kMaxGrowths = 3 * kMostLongRuns + 2;
  using Growth = std::array<int64_t, kMaxGrowths>;

  // Live bytes at an instruction of the base, and what each step beyond it adds.
  struct Point {
    int64_t bytes = 0;       // without norm terms
    int64_t norm_terms = 0;  // buffers of them that are live
    Growth growth{};
    CategoryBytes by_category{};
    std::array<CategoryBytes, kMaxGrowths> category_growth{};
  };

  [[nodiscard]] Growth beyond_base(const StageShape& shape) const;
  void keep_undominated();
  [[nodiscard]] int64_t norm_terms_bytes(const StageShape& shape) const;
  [[nodiscard]] int64_t bytes_at(const Point& point, const Growth& beyond,
                                 int64_t terms_bytes) const;

  StageShape base_;
  std::vector<size_t> grown_runs_;  // of the base's, those at their bound
  bool ahead_grows_ = false;
  bool behind_grows_ = false;
  size_t num_growths_ = 0;
  std::vector<Point> points_;  // in the program's order
  StageTimes times_{};
  int64_t norm_terms_ = 0;  // elements of such a buffer
  // For each grown run.
  std::array<StageTimes, kMostLongRuns> time_growth_{};
  std::array<int64_t, kMostLongRuns> norm_terms_growth_{};
};

// Forms of one strategy's setting (all but pipeline, stage bounds and recompute), made when first
// asked for. Model, cluster, job and strategy must outlive it.
class StageForms {
 public:
  StageForms(const ModelSpec& model, const Cluster& cluster, const Job& job,
             const Strategy& strategy)
      : model_(model), cluster_(cluster), job_(job), strategy_(strategy) {}

  [[nodiscard]] const StageForm& form_of(const StageShape& shape);
  [[nodiscard]] int num_forms() const { return static_cast<int>(forms_.size()); }

 private:
  const ModelSpec& model_;
  const Cluster& cluster_;
  const Job& job_;
  Strategy strategy_;
  std::map<StageShape, StageForm> forms_;
};

}  // namespace plimsoll
