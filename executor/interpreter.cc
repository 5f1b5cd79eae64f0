#include "executor/interpreter.h"

#include "base/error.h"
#include "executor/exchange.h"
#include "executor/initialise.h"
#include "program/liveness.h"
#include "program/order.h"
#include "program/verify.h"

#include <algorithm>
#include <optional>

namespace plimsoll {

// One instruction, ready to be called. Its operands are kept in one list, inputs first.
struct Interpreter::Call {
  enum class Kind : uint8_t { kKernel, kInitialise, kLoadBatch, kExchange };

  // An operand with several copies gets its address before each call.
  struct Rotating {
    size_t operand = 0;
    const std::vector<std::byte*>* copies = nullptr;
  };

  Kind kind = Kind::kKernel;
  KernelFunction kernel = nullptr;
  const Instruction* instruction = nullptr;
  std::vector<Operand> operands;
  std::vector<Rotating> rotating;
  const LogicalTensor* logical = nullptr;  // initialise
  std::string field, split;                // load_batch
  std::optional<Exchange> exchange;
  std::string where;
  std::vector<size_t> finishes;  // sends of the body that must have arrived before this call

  [[nodiscard]] std::span<const Operand> inputs() const {
    return {operands.data(), instruction->inputs.size()};
  }
  [[nodiscard]] std::span<const Operand> outputs() const {
    return std::span<const Operand>(operands).subspan(instruction->inputs.size());
  }
};

struct Interpreter::RunSegment {
  struct Range {
    std::byte* begin = nullptr;
    int64_t bytes = 0;
  };

  const Segment* segment = nullptr;
  SegmentExpansion expansion;  // with poison only
  std::vector<Call> calls;
  std::vector<size_t> sends;                 // indices of calls
  std::vector<std::vector<Range>> released;  // by kept iteration * body size + index; or empty

  // The kept iteration that stands for iteration `i` as written, see program/expansion.h.
  [[nodiscard]] int64_t kept(int64_t i) const {
    const int64_t period = expansion.period;
    if (i < expansion.iterations - period) return i;
    if (i >= expansion.repeat - period) return i - (expansion.repeat - expansion.iterations);
    return period + i % period;
  }
};

struct Interpreter::RunPhase {
  std::string name;
  std::vector<RunSegment> segments;
};

Interpreter::Interpreter(const StepProgram& program, Arena& arena, ThreadPool& pool,
                         Communicator& communicator, LoadBatch load_batch,
                         const InterpreterOptions& options)
    : program_(program),
      pool_(pool),
      communicator_(communicator),
      load_batch_(std::move(load_batch)),
      options_(options) {
  const std::string where = fmt::format("program of rank {}", program.header.rank);
  verify_or_throw(program, where);
  if (!is_placed(program)) {
    throw bad_input(fmt::format("{}: its buffers have no offsets", where), "place them first");
  }
  const std::string float_name = program.header.hyperparameters.get_string("float", "f32");
  float_type_ = parse_dtype(float_name).value_or(DType::kU8);
  if (float_type_ != DType::kF32 && float_type_ != DType::kF64) {
    throw bad_input(
        fmt::format("precision {}: planned but cannot be run by the cpu backend yet", float_name),
        "train with --precision fp32");
  }
  place_buffers(arena);
  const int scalars = program.find_buffer(kScalarsBuffer);
  if (scalars != kNoBuffer) {
    const Operand operand = this->operand(scalars);
    if (operand.dtype != DType::kF64 || operand.size() != kNumScalars) {
      throw bad_input(fmt::format("{}: buffer '{}' is not f64 [{}]", where, kScalarsBuffer,
                                  static_cast<int>(kNumScalars)));
    }
    scalars_ = operand.as<double>();
  }
  resolve_phases();
  if (options_.poison) plan_poison();
}

Interpreter::~Interpreter() = default;

void Interpreter::place_buffers(Arena& arena) {
  for (const Buffer& buffer : program_.buffers) {
    if (buffer.place != Place::kDevice) {
      throw bad_input(
          fmt::format("buffer '{}' lies in host memory: planned but cannot be run by "
                      "the cpu backend yet",
                      buffer.name));
    }
    if (buffer.dtype == DType::kBF16 || buffer.dtype == DType::kF16) {
      throw bad_input(fmt::format("buffer '{}' is {}: planned but cannot be run by the cpu backend "
                                  "yet",
                                  buffer.name, dtype_name(buffer.dtype)),
                      "train with --precision fp32");
    }
    std::vector<std::byte*>& copies = addresses_.emplace_back();
    for (const int64_t offset : buffer.offsets) {
      copies.push_back(arena.allocate(offset, buffer.bytes(), buffer.name));
    }
  }
  arena.seal();
}

Operand Interpreter::operand(int buffer) const {
  const Buffer& described = program_.buffers.at(static_cast<size_t>(buffer));
  return {addresses_[static_cast<size_t>(buffer)].front(), described.dtype, &described.shape};
}

Interpreter::Call Interpreter::resolve(const Instruction& instruction,
                                       const std::string& where) const {
  Call call;
  call.instruction = &instruction;
  call.where = where;
  for (const std::vector<int>* list : {&instruction.inputs, &instruction.outputs}) {
    for (const int buffer : *list) {
      call.operands.push_back(buffer == kNoBuffer ? Operand{} : operand(buffer));
      if (buffer != kNoBuffer && addresses_[static_cast<size_t>(buffer)].size() > 1) {
        call.rotating.push_back(
            {call.operands.size() - 1, &addresses_[static_cast<size_t>(buffer)]});
      }
    }
  }
  for (const OperandShape& view : instruction.views) {
    const auto at = static_cast<size_t>(view.operand);
    if (view.operand < 0 || at >= call.operands.size() || !call.operands[at].present() ||
        std::any_of(view.shape.begin(), view.shape.end(), [](int64_t n) { return n < 1; }) ||
        num_elements(view.shape) != call.operands[at].size()) {
      throw bad_input(fmt::format("{}: operand {} cannot be viewed as {}", where, view.operand,
                                  shape_text(view.shape)));
    }
    call.operands[at].shape = &view.shape;
  }

  const bool own = instruction.op == "initialise" || instruction.op == "load_batch";
  if (own && (call.outputs().size() != 1 || !call.outputs()[0].present())) {
    throw bad_input(fmt::format("{}: needs exactly one output", where));
  }
  if (instruction.op == "initialise") {
    call.kind = Call::Kind::kInitialise;
    const Buffer& buffer = program_.buffers[static_cast<size_t>(instruction.outputs[0])];
    if (!buffer.logical) {
      throw bad_input(fmt::format("{}: buffer '{}' has no logical tensor", where, buffer.name));
    }
    call.logical = &*buffer.logical;
  } else if (instruction.op == "load_batch") {
    call.kind = Call::Kind::kLoadBatch;
    call.field = instruction.attributes.get_string("field", "");
    call.split = instruction.attributes.get_string("split", "");
    if (call.field.empty() || call.split.empty()) {
      throw bad_input(fmt::format("{}: needs the attributes field and split", where));
    }
  } else if (is_exchange(instruction.op)) {
    call.kind = Call::Kind::kExchange;
    call.exchange.emplace(instruction, call.operands, communicator_, where);
  } else {
    call.kernel = find_kernel(instruction.op, float_type_);
    if (call.kernel == nullptr) {
      throw bad_input(fmt::format("{}: the cpu backend has no kernel for '{}' in {}", where,
                                  instruction.op, dtype_name(float_type_)),
                      fmt::format("it has: {}", fmt::join(kernel_names(), ", ")));
    }
  }
  return call;
}

void Interpreter::resolve_phases() {
  for (const Phase& phase : program_.phases) {
    auto run = std::make_unique<RunPhase>();
    run->name = phase.name;
    for (const Segment& segment : phase.segments) {
      RunSegment& made = run->segments.emplace_back();
      made.segment = &segment;
      for (size_t k = 0; k < segment.body.size(); ++k) {
        made.calls.push_back(
            resolve(segment.body[k], fmt::format("phase '{}', segment '{}', instruction {} ({})",
                                                 phase.name, segment.name, k, segment.body[k].op)));
      }
      plan_sends(made);
    }
    phases_.push_back(std::move(run));
  }
}

void Interpreter::plan_poison() {
  const Liveness liveness = compute_liveness(program_);
  for (size_t p = 0; p < phases_.size(); ++p) {
    const PhaseLiveness& phase = liveness.phases[p];
    std::vector<RunSegment>& segments = phases_[p]->segments;
    for (size_t s = 0; s < segments.size(); ++s) {
      segments[s].expansion = phase.expansion.segments()[s];
      segments[s].released.resize(static_cast<size_t>(segments[s].expansion.iterations) *
                                  segments[s].calls.size());
    }
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      if (program_.buffers[b].persistent) continue;
      for (size_t c = 0; c < addresses_[b].size(); ++c) {
        const auto id = liveness.copy_id(static_cast<int>(b), static_cast<int64_t>(c));
        for (const Interval& live : phase.live[static_cast<size_t>(id)]) {
          const auto at = static_cast<size_t>(phase.expansion.locate(live.upper - 1).segment);
          const int64_t position = live.upper - 1 - segments[at].expansion.first_position;
          segments[at].released[static_cast<size_t>(position)].push_back(
              {addresses_[b][c], program_.buffers[b].bytes()});
        }
      }
    }
  }
}

void Interpreter::run_phase(std::string_view name) {
  const auto phase = std::find_if(phases_.begin(), phases_.end(),
                                  [&](const auto& candidate) { return candidate->name == name; });
  if (phase == phases_.end()) {
    throw bad_input(fmt::format("program of rank {}: no phase '{}'", program_.header.rank, name));
  }
  for (RunSegment& run : (*phase)->segments) run_segment(run);
  communicator_.set_place(nullptr);
}

// Which sends must have arrived before which call.
void Interpreter::plan_sends(RunSegment& run) {
  const std::vector<int64_t> done_at = sends_done_at(run.segment->body);
  for (size_t k = 0; k < run.calls.size(); ++k) {
    if (!run.calls[k].exchange || !run.calls[k].exchange->sends()) continue;
    run.sends.push_back(k);
    const auto before = static_cast<size_t>(done_at[k]);
    if (before < run.calls.size()) run.calls[before].finishes.push_back(k);
  }
}

void Interpreter::run_segment(RunSegment& run) {
  const Segment& segment = *run.segment;
  size_t k = 0;
  const auto place = [&] {
    return fmt::format("rank {}, {}{}", program_.header.rank,
                       scalars_ == nullptr
                           ? ""
                           : fmt::format("step {}, ", static_cast<int64_t>(scalars_[kScalarStep])),
                       run.calls[std::min(k, run.calls.size() - 1)].where);
  };
  try {
    for (int64_t i = 0; i < segment.repeat; ++i) {
      const int64_t first = segment.first_microbatch + i * segment.microbatch_stride;
      for (k = 0; k < run.calls.size(); ++k) {
        communicator_.set_place(&run.calls[k].where);
        run_call(run, run.calls[k], first + run.calls[k].instruction->microbatch);
        if (run.released.empty()) continue;
        const size_t position = static_cast<size_t>(run.kept(i)) * run.calls.size() + k;
        for (const RunSegment::Range& range : run.released[position]) {
          finish_sends_of(run, range.begin, range.bytes);
          poison_bytes(range.begin, range.bytes);
        }
      }
      for (const size_t send : run.sends) run.calls[send].exchange->finish();
    }
  } catch (const Aborted&) {
    throw;
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", place(), error.what()), error.hint());
  } catch (const std::exception& error) {
    throw run_failed(fmt::format("{}: {}", place(), error.what()));
  }
}

void Interpreter::run_call(RunSegment& run, Call& call, int64_t microbatch) {
  for (const size_t send : call.finishes) run.calls[send].exchange->finish();
  for (const Call::Rotating& rotating : call.rotating) {
    const auto copies = static_cast<int64_t>(rotating.copies->size());
    call.operands[rotating.operand].data =
        (*rotating.copies)[static_cast<size_t>(microbatch % copies)];
  }
  switch (call.kind) {
    case Call::Kind::kKernel: {
      KernelArgs args;
      args.in = call.inputs();
      args.out = call.outputs();
      args.accumulate = call.instruction->accumulate;
      args.attributes = &call.instruction->attributes;
      args.scalars = scalars_;
      args.first_sample =
          program_.header.samples.first + microbatch * program_.header.samples.per_microbatch;
      args.dp_place = program_.header.coordinates.dp;
      args.tp_place = program_.header.coordinates.tp;
      args.pool = &pool_;
      call.kernel(args);
      return;
    }
    case Call::Kind::kInitialise:
      initialise_buffer(*call.logical, call.outputs()[0], options_.seed, pool_,
                        program_.header.coordinates.dp);
      return;
    case Call::Kind::kLoadBatch:
      load(call, microbatch);
      return;
    case Call::Kind::kExchange:
      if (call.exchange->receives()) {
        const Operand& out = call.outputs()[0];
        finish_sends_of(run, out.as<std::byte>(), out.size() * dtype_bytes(out.dtype));
      }
      call.exchange->run(call.operands);
      return;
  }
}

// Bytes are not written over while a message of theirs is under way.
void Interpreter::finish_sends_of(RunSegment& run, const std::byte* data, int64_t bytes) {
  for (const size_t send : run.sends) {
    Exchange& exchange = *run.calls[send].exchange;
    if (exchange.holds(data, bytes)) exchange.finish();
  }
}

// Micro-batches past those of a step belong to the following global batches: an evaluation over
// several global batches counts them from 0.
void Interpreter::load(const Call& call, int64_t microbatch) {
  const SampleIndex& samples = program_.header.samples;
  BatchRequest request;
  request.field = call.field;
  request.split = call.split;
  request.batch = microbatch / samples.num_microbatches;
  if (call.split == "train" && scalars_ != nullptr) {
    request.batch += static_cast<int64_t>(scalars_[kScalarStep]);
  }
  request.first_sample =
      samples.first + microbatch % samples.num_microbatches * samples.per_microbatch;
  request.micro_batch = samples.micro_batch;
  load_batch_(request, call.outputs()[0]);
}

}  // namespace plimsoll
