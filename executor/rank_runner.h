// One rank of a training run: its memory, and the loop over steps.
#pragma once

#include "base/noise.h"
#include "executor/checkpoint.h"
#include "executor/trainer.h"
#include "kernels/cpu/thread_pool.h"

#include <memory>
#include <optional>
#include <vector>

namespace plimsoll {

// What all ranks of a run share, by reference.
struct SharedRun {
  const DataSource& data;
  const TrainOptions& options;
  const TrainCallbacks& callbacks;
  std::optional<Checkpoint> resume_from;
  // Written by rank 0 between two barriers, read by all behind the second: the signal received.
  int signal_seen = 0;
  // What each rank holds of the tensors; rank 0 reads it between two barriers to save them.
  std::vector<std::vector<PersistentPart>> parts = {};
};

// Lives in one thread, but for construction and destruction. Its arena is there as long as it is.
class RankRunner {
 public:
  RankRunner(const StepProgram& program, Communicator& communicator, SharedRun& shared,
             int num_threads);
  ~RankRunner();

  // Everything from the first value to the last step. Throws what goes wrong.
  void run();

  // Behind `run`, whether it ended well or not.
  [[nodiscard]] RankReport report() const;
  // What the run came to; the fields that concern all ranks are not filled in.
  [[nodiscard]] const TrainResult& result() const { return result_; }
  [[nodiscard]] int64_t stack_bytes() const { return stack_bytes_; }

 private:
  void prepare();
  void start_values();
  [[nodiscard]] bool interrupted();
  void set_scalars(int64_t valid_targets);
  void train_step();
  void after_step(StepMetrics& metrics);
  // The validation loss; sets the accuracy in `result_` where the program counts it.
  [[nodiscard]] float evaluate();
  void judge_validation(float loss);
  void add_noise(double gradient_norm);
  [[nodiscard]] const std::vector<PersistentPart>& parts() const;
  void save();
  [[nodiscard]] double read_loss(int64_t valid_targets, std::string_view what) const;
  [[nodiscard]] bool is_first() const { return communicator_.rank() == 0; }
  void say(const std::string& message) const;

  const StepProgram& program_;
  Communicator& communicator_;
  SharedRun& shared_;
  const TrainOptions& options_;
  int num_threads_;

  std::unique_ptr<Arena> arena_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Interpreter> interpreter_;
  std::unique_ptr<MetricsWriter> metrics_;  // rank 0
  Operand loss_, correct_, small_norm_;

  RunState state_;
  NoiseEstimator noise_;
  TrainResult result_;
  bool evaluates_ = false;
  bool stop_ = false;
  int64_t saved_step_ = -1;
  std::vector<double> step_seconds_;
  int64_t stack_bytes_ = 0;
};

}  // namespace plimsoll
