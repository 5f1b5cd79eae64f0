// Lowering: from a model, a job and a strategy to the program of each rank.
#pragma once

#include "models/model.h"
#include "planner/job.h"
#include "planner/strategy.h"
#include "program/program.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

// What of the device goes into the program's header.
struct DeviceFacts {
  int64_t outside_bytes = 0;         // driver, libraries, communicators
  double peak_flops_per_second = 0;  // in the job's precision
};

// Called with each pass's name and the program as it stands after it.
using PassObserver = std::function<void(const std::string& pass, const StepProgram& program)>;

// Lowers the stages of one strategy, whose graphs are built once. Model, job and strategy must
// outlive it; its functions may be called from several threads at once.
class StageLowering {
 public:
  // Throws Error (exit 2) when the strategy does not suit model and job.
  StageLowering(const ModelSpec& model, const Job& job, const Strategy& strategy,
                const DeviceFacts& device);
  // The program of the stage's first data-parallel rank; without offsets, or with them.
  [[nodiscard]] StepProgram unplaced(int stage, const PassObserver& observer = {}) const;
  [[nodiscard]] StepProgram placed(int stage, const PassObserver& observer = {}) const;
  // The program of another rank of its stage: the same instructions and offsets, other samples and
  // other boxes of the tensors.
  [[nodiscard]] StepProgram of_rank(const StepProgram& program, int data_place, int tp_place) const;

 private:
  const ModelSpec& model_;
  const Job& job_;
  const Strategy& strategy_;
  DeviceFacts device_;
  std::optional<Graph> training_;  // of the whole model, of one tensor-parallel rank
  std::optional<Graph> evaluation_;
  int64_t num_parameters_ = 0;  // of the whole model
  int64_t num_active_parameters_ = 0;
};

// The placed programs of all ranks of the strategy, by rank.
[[nodiscard]] std::vector<StepProgram> lower_ranks(const ModelSpec& model, const Job& job,
                                                   const Strategy& strategy,
                                                   const DeviceFacts& device);

// The placed program of the first pipeline stage's first rank. Ranks of a data-parallel group
// differ in their header alone, see `for_rank`. Throws Error (exit 2) when the strategy does not
// suit model and job.
[[nodiscard]] StepProgram lower(const ModelSpec& model, const Job& job, const Strategy& strategy,
                                const DeviceFacts& device, const PassObserver& observer = {});

// The programs of all pipeline stages, each of its first data-parallel rank.
[[nodiscard]] std::vector<StepProgram> lower_stages(const ModelSpec& model, const Job& job,
                                                    const Strategy& strategy,
                                                    const DeviceFacts& device);

// The program of another rank of the same stage with the same place in the tensor-parallel group:
// place (dp * ep_size + ep) * cp_size + cp. Logical tensors stay those of `program`.
[[nodiscard]] StepProgram for_rank(const StepProgram& program, int place);

// FLOPs of one step of the whole job by the convention of D6: (6 N + 12 L s h) a token for
// transformers, with the parameters N that a token meets; three times the forward's for other
// models.
[[nodiscard]] double model_flops(const ModelSpec& model, const Job& job,
                                 int64_t num_active_parameters, double forward_flops_a_sample);

}  // namespace plimsoll
