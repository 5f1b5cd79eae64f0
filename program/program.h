// The StepProgram: what one rank does in a run, as plain data.
//
// Every part of Plimsoll consumes this one artefact: the memory timeline and the reports read it,
// the simulator times it, the executor runs it. It is self-sufficient: nothing outside it (model,
// planner, cost model) is needed to initialise, train, checkpoint or report.
//
// A rank has one buffer table and several phases (initialise, step, evaluate, …). Persistent
// buffers live across phases at one offset; all others live inside one phase. A phase is a list of
// segments; a segment is a body that repeats, so a step of 768 micro-batches is no larger than one
// of 8. Instruction `k` of iteration `i` works for micro-batch
//     segment.first_microbatch + i * segment.microbatch_stride + instruction.microbatch
// and touches copy (micro-batch modulo buffer.copies) of each buffer that it names.
#pragma once

#include "base/attributes.h"
#include "base/dtype.h"
#include "base/shape.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

// What a byte is for. Each byte belongs to exactly one category.
enum class Category : uint8_t {
  kParameters,
  kGradients,
  kOptimizer,
  kActivations,
  kInput,
  kWorkspace,
  kCommunication,
  kFramework,
};
inline constexpr int kNumCategories = 8;
[[nodiscard]] std::string_view category_name(Category category);
[[nodiscard]] std::optional<Category> parse_category(std::string_view name);

// How a persistent buffer gets its first value: a constant, or a normal draw keyed by the logical
// tensor's name and the element's global index, so that no plan changes it.
struct Initialiser {
  enum class Kind : uint8_t { kZero, kOne, kNormal, kUniform, kRunning };
  Kind kind = Kind::kZero;
  double scale = 0;  // standard deviation (normal), half width around zero (uniform)
  // kRunning: running statistics [2, C], means of 0 over variances of 1.
  friend bool operator==(const Initialiser&, const Initialiser&) = default;
};

// A part of a persistent buffer that is a box of a tensor known outside ("h.3.attn.c_attn.weight").
// A buffer holds its parts one after the other along dimension 0: a fused [q; k; v] projection has
// three, a rank of a sharded tensor names the rows it owns.
struct LogicalPart {
  std::string name;                // name in checkpoints and exported files
  Shape global_shape;              // of the whole tensor, in the buffer's layout
  std::vector<int64_t> box_start;  // this rank's box in the global tensor
  Shape box_extent;
  bool transposed = false;  // stored as (in, out) outside, (out, in) here
  friend bool operator==(const LogicalPart&, const LogicalPart&) = default;
};

struct LogicalTensor {
  std::vector<LogicalPart> parts;
  Initialiser initialiser;
  std::string role;  // "parameter", "moment1", "moment2", "momentum", "state", "gradient"
  std::string optimizer_group;  // "matrix", "vector", "state"; weight decay is set by group
  // More than 1: the parts' n elements, one after the other, are cut into that many shards of
  // ceil(n / shards), the end filled with zeros; this buffer is the shard of the rank's number in
  // its data-parallel group, and has that many elements.
  int64_t shards = 1;
  // Elements behind the parts that belong to no tensor and are zero: a rank's share of a vocabulary
  // that does not divide evenly. A rank may hold padding alone.
  int64_t padding = 0;
  friend bool operator==(const LogicalTensor&, const LogicalTensor&) = default;
};

enum class Place : uint8_t { kDevice, kHost };

struct Buffer {
  std::string name;  // unique within the program
  Category category = Category::kActivations;
  DType dtype = DType::kF32;
  Shape shape;     // of one copy
  int copies = 1;  // live copies, indexed by micro-batch modulo copies
  Place place = Place::kDevice;
  bool persistent = false;       // live in every phase, at one offset
  int layer = -1;                // block of the model, -1 outside the blocks
  std::string op;                // op that owns it, for reports ("attention")
  std::vector<int64_t> offsets;  // one for each copy, in the arena; empty before placement
  std::optional<LogicalTensor> logical;

  // Bytes of one copy, without padding.
  [[nodiscard]] int64_t bytes() const {
    return checked_mul(num_elements(shape), dtype_bytes(dtype));
  }
  friend bool operator==(const Buffer&, const Buffer&) = default;
};

enum class Stream : uint8_t { kCompute, kTensorParallel, kDataParallel, kPipeline, kCopy };
inline constexpr int kNumStreams = 5;
[[nodiscard]] std::string_view stream_name(Stream stream);

// What an instruction is part of, for reports and the simulator.
enum class Pass : uint8_t {
  kInput,
  kForward,
  kRecompute,
  kBackward,
  kReduce,
  kUpdate,
  kInitialise,
};
[[nodiscard]] std::string_view pass_name(Pass pass);

inline constexpr int kNoBuffer = -1;  // an absent optional operand

// One call of a registered kernel or collective. The operand lists of each op are in docs/ops.md.
// An operand that views its buffer under another shape of as many elements.
struct OperandShape {
  int operand = 0;  // index into inputs, then outputs
  Shape shape;
  friend bool operator==(const OperandShape&, const OperandShape&) = default;
};

struct Instruction {
  std::string op;            // registered name, e.g. "linear.backward_input", "all_reduce"
  std::vector<int> inputs;   // buffers read, kNoBuffer for an absent operand
  std::vector<int> outputs;  // buffers written, likewise; workspace comes last
  uint32_t accumulate = 0;   // bit k: output k is added to (or updated in place), so also read
  Attributes attributes;
  std::vector<OperandShape> views;  // operands whose shape is not their buffer's
  Stream stream = Stream::kCompute;
  std::vector<int> waits;  // instructions of this body, on other streams, that must be done
  int microbatch = 0;      // relative micro-batch, see the head of this file
  Pass pass = Pass::kForward;
  int layer = -1;
  double flops = 0;        // floating point operations of this call
  double bytes_moved = 0;  // bytes read and written by this call, for the roofline
  friend bool operator==(const Instruction&, const Instruction&) = default;
};

// Output `k` of the instruction is added to or updated in place. Outputs past 31 never are.
[[nodiscard]] inline bool accumulates(const Instruction& instruction, size_t k) {
  return k < 32 && ((instruction.accumulate >> k) & 1U) != 0;
}

// All streams are joined between the iterations of a segment and between segments: whoever runs a
// program starts an iteration only when every instruction of the one before is done. So the order
// of instructions on different streams is a matter of one iteration alone (`waits`).
struct Segment {
  std::string name;  // "begin", "micro-batches", "reduce", "update"
  int64_t repeat = 1;
  int64_t first_microbatch = 0;
  int64_t microbatch_stride = 1;
  std::vector<Instruction> body;
  friend bool operator==(const Segment&, const Segment&) = default;
};

struct Phase {
  std::string name;  // "initialise", "step", "step_noise", "evaluate"
  std::vector<Segment> segments;
  friend bool operator==(const Phase&, const Phase&) = default;
};

// This rank's place in each parallel dimension and the dimensions' sizes.
struct Coordinates {
  int dp = 0, tp = 0, pp = 0, cp = 0, ep = 0;
  int dp_size = 1, tp_size = 1, pp_size = 1, cp_size = 1, ep_size = 1;
  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};

// Sample `i` (0 <= i < micro_batch) of micro-batch `m` on this rank is sample
//     first + m * per_microbatch + i
// of the step's global batch; the data sets map (step, that index) to data.
struct SampleIndex {
  int64_t global_batch = 1;
  int64_t micro_batch = 1;
  int64_t first = 0;
  int64_t per_microbatch = 1;
  int64_t num_microbatches = 1;  // of this rank in one step
  friend bool operator==(const SampleIndex&, const SampleIndex&) = default;
};

struct Header {
  int version = 1;
  std::string model;           // name, for people
  Attributes hyperparameters;  // of the model and job ("layers", "hidden", "objective", …)
  int rank = 0;
  Coordinates coordinates;
  SampleIndex samples;
  int64_t alignment = 256;    // offsets and reserved sizes are multiples of this
  int64_t arena_bytes = 0;    // highest end of a placed device buffer, aligned
  int64_t outside_bytes = 0;  // driver, libraries, communicators: peak = arena + this
  double model_flops = 0;     // of one step on this rank, by `flops_convention`
  double hardware_flops = 0;  // with recompute
  std::string flops_convention = "(6 N + 12 L s h) FLOPs a token";
  double peak_flops_per_second = 0;  // of the device in the precision used
  double predicted_step_seconds = 0;
  friend bool operator==(const Header&, const Header&) = default;
};

struct StepProgram {
  Header header;
  std::vector<Buffer> buffers;
  std::vector<Phase> phases;

  [[nodiscard]] const Phase* find_phase(std::string_view name) const;
  // Index of the buffer of that name, or kNoBuffer.
  [[nodiscard]] int find_buffer(std::string_view name) const;
  // What one copy takes in the arena: its bytes rounded up to the alignment.
  [[nodiscard]] int64_t reserved_bytes(int buffer) const {
    return align_up(buffers[static_cast<size_t>(buffer)].bytes(), header.alignment);
  }
  [[nodiscard]] int64_t peak_bytes() const { return header.arena_bytes + header.outside_bytes; }
  friend bool operator==(const StepProgram&, const StepProgram&) = default;
};

// Names of buffers that the executor itself reads or writes.
inline constexpr const char* kScalarsBuffer = "scalars";      // f64 [kNumScalars], see below
inline constexpr const char* kLossBuffer = "loss";            // f64 [1]: sum over the global batch
inline constexpr const char* kCorrectBuffer = "correct";      // f64 [1]: rightly classified samples
inline constexpr const char* kNoiseBuffer = "small_norm_sq";  // f64 [1]: sum of |g_small|^2

// Slots of the scalars buffer: what changes from step to step is read from here, never baked in.
enum Scalar : int {
  kScalarStep = 0,  // 0-based
  kScalarSeed = 1,
  kScalarLearningRate = 2,
  kScalarBiasCorrection1 = 3,  // 1 - beta1^(step + 1)
  kScalarBiasCorrection2 = 4,
  kScalarGradientScale = 5,  // 1 / (valid targets of the global batch)
  kScalarGradientNorm = 6,   // written by "clip"
  kScalarClipFactor = 7,     // written by "clip"
  kScalarSkipUpdate = 8,     // non-zero: the update instructions do nothing
  kNumScalars = 16,
};

}  // namespace plimsoll
