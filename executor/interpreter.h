// Runs a StepProgram on one device.
//
// Everything is resolved in the constructor: kernels found, operands turned into addresses in the
// arena, attributes read. `run_phase` only calls; it neither allocates nor looks anything up by
// name. Instructions run in list order, so any legal placement of the buffers gives the same bits.
// A send alone is set off and left: it is waited for where `sends_done_at` says, and at the end of
// the iteration (docs/decisions/pipeline_messages.md).
#pragma once

#include "executor/arena.h"
#include "executor/bind.h"
#include "executor/communicator.h"
#include "program/program.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// What a `load_batch` instruction wants: `field` of samples [first_sample, first_sample +
// micro_batch) of global batch number `batch` of a split.
struct BatchRequest {
  std::string_view field;
  std::string_view split;    // "train", "validation"
  int64_t batch = 0;         // the step when training, counted from 0 in an evaluation
  int64_t first_sample = 0;  // in the global batch
  int64_t micro_batch = 0;
};
using LoadBatch = std::function<void(const BatchRequest&, const Operand& out)>;

#ifdef NDEBUG
inline constexpr bool kPoisonByDefault = false;
#else
inline constexpr bool kPoisonByDefault = true;
#endif

struct InterpreterOptions {
  uint64_t seed = 0;               // of the initial values
  bool poison = kPoisonByDefault;  // overwrite buffers with NaN after their last use
};

class Interpreter {
 public:
  // Verifies the program, places its buffers in the arena and seals it. What is passed must outlive
  // the interpreter. Throws Error (exit 2) naming the instruction that cannot be run here.
  Interpreter(const StepProgram& program, Arena& arena, ThreadPool& pool,
              Communicator& communicator, LoadBatch load_batch, const InterpreterOptions& options);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Runs every instruction of the phase. Throws Error (exit 2) when there is no such phase, and
  // what the data source or the communicator throws, with rank and instruction before it.
  void run_phase(std::string_view name);

  // Copy 0 of a buffer; the index comes from StepProgram::find_buffer.
  [[nodiscard]] Operand operand(int buffer) const;
  // The 16 slots of the scalars buffer; null when the program has none.
  [[nodiscard]] double* scalars() const { return scalars_; }
  [[nodiscard]] const StepProgram& program() const { return program_; }

 private:
  struct Call;
  struct RunSegment;
  struct RunPhase;

  void place_buffers(Arena& arena);
  [[nodiscard]] Call resolve(const Instruction& instruction, const std::string& where) const;
  void resolve_phases();
  void plan_poison();
  static void plan_sends(RunSegment& run);
  void run_segment(RunSegment& run);
  static void finish_sends_of(RunSegment& run, const std::byte* data, int64_t bytes);
  void run_call(RunSegment& run, Call& call, int64_t microbatch);
  void load(const Call& call, int64_t microbatch);

  const StepProgram& program_;
  ThreadPool& pool_;
  Communicator& communicator_;
  LoadBatch load_batch_;
  InterpreterOptions options_;
  DType float_type_ = DType::kF32;
  double* scalars_ = nullptr;
  std::vector<std::vector<std::byte*>> addresses_;  // of each copy of each buffer
  std::vector<std::unique_ptr<RunPhase>> phases_;
};

}  // namespace plimsoll
