#include "base/error.h"
#include "program/order.h"
#include "program/verify_rules.h"

#include <algorithm>

namespace plimsoll::rules {

namespace {

const Buffer& buffer_at(const StepProgram& program, int buffer) {
  return program.buffers[static_cast<size_t>(buffer)];
}

// Index of the phase that gives persistent buffers their first values, or -1.
int initialise_phase(const StepProgram& program) {
  for (size_t p = 0; p < program.phases.size(); ++p) {
    if (program.phases[p].name == "initialise") return static_cast<int>(p);
  }
  return -1;
}

}  // namespace

void defined_before_use(const StepProgram& program, const Liveness& liveness, Violations& out) {
  Report report("defined-before-use", out);
  for (size_t p = 0; p < program.phases.size(); ++p) {
    const PhaseLiveness& phase = liveness.phases[p];
    for (const UndefinedRead& read : phase.undefined_reads) {
      const Buffer& buffer = buffer_at(program, read.buffer);
      if (buffer.persistent) continue;
      report.add("{} reads buffer '{}' (copy {}), which nothing has defined in this phase",
                 position_text(program.phases[p], phase.expansion.locate(read.position)),
                 buffer.name, read.copy);
    }
  }
}

// Every persistent buffer has a value before it is read: the executor writes the scalars; the
// initialise phase, where there is one, defines all buffers with a logical tensor (otherwise they
// come from a checkpoint); any other must be defined there or earlier in the phase that reads it.
void persistent_initialised(const StepProgram& program, const Liveness& liveness, Violations& out) {
  Report report("persistent-initialised", out);
  const int init = initialise_phase(program);
  const auto initialised = [&](int64_t id) {
    return init >= 0 && liveness.phases[static_cast<size_t>(init)].defined[static_cast<size_t>(id)];
  };
  for (size_t b = 0; b < program.buffers.size() && init >= 0; ++b) {
    const Buffer& buffer = program.buffers[b];
    if (!buffer.persistent || !buffer.logical) continue;
    for (int64_t id = liveness.first_copy[b]; id < liveness.first_copy[b + 1]; ++id) {
      if (initialised(id)) continue;
      report.add("phase 'initialise' does not define persistent buffer '{}' (copy {})", buffer.name,
                 id - liveness.first_copy[b]);
    }
  }
  for (size_t p = 0; p < program.phases.size(); ++p) {
    const PhaseLiveness& phase = liveness.phases[p];
    for (const UndefinedRead& read : phase.undefined_reads) {
      const Buffer& buffer = buffer_at(program, read.buffer);
      if (!buffer.persistent || buffer.name == kScalarsBuffer) continue;
      const bool from_before =
          static_cast<int>(p) != init && initialised(liveness.copy_id(read.buffer, read.copy));
      const bool from_checkpoint = init < 0 && buffer.logical.has_value();
      if (from_before || from_checkpoint) continue;
      report.add("{} reads persistent buffer '{}' (copy {}), which nothing has given a value",
                 position_text(program.phases[p], phase.expansion.locate(read.position)),
                 buffer.name, read.copy);
    }
  }
}

void inputs_loaded(const StepProgram& program, Violations& out) {
  Report report("input-loaded", out);
  const auto is_input = [&](int buffer) {
    // The scalars come from the executor, also where they are counted as input.
    return buffer != kNoBuffer && buffer_at(program, buffer).category == Category::kInput &&
           buffer_at(program, buffer).name != kScalarsBuffer;
  };
  for (const Phase& phase : program.phases) {
    for (const Segment& segment : phase.segments) {
      for (size_t k = 0; k < segment.body.size(); ++k) {
        const Instruction& instruction = segment.body[k];
        if (instruction.op == "load_batch") continue;
        for (const int buffer : instruction.outputs) {
          if (!is_input(buffer)) continue;
          report.add(
              "phase '{}', segment '{}', instruction {} ({}) writes input buffer '{}', which only "
              "load_batch may",
              phase.name, segment.name, k, instruction.op, buffer_at(program, buffer).name);
        }
      }
    }
  }
}

namespace {

// Looks at one segment, iteration by iteration, for two accesses of one copy of which one writes
// and that may run in either order.
class OrderCheck {
 public:
  OrderCheck(const StepProgram& program, const Liveness& liveness, Report& report)
      : program_(program),
        liveness_(liveness),
        report_(report),
        copies_(static_cast<size_t>(liveness.num_copies())) {}

  void run(const Phase& phase, const Segment& segment, const SegmentExpansion& kept) {
    const BodyOrder order(segment.body);
    if (order.single_stream()) return;
    // After one period the slots are those of before, and no order crosses an iteration.
    for (int64_t i = 0; i < std::min(kept.period, kept.iterations) && !report_.full(); ++i) {
      ++stamp_;
      for (int64_t k = 0; k < kept.body_size; ++k) {
        const Instruction& instruction = segment.body[static_cast<size_t>(k)];
        const auto visit = [&](int buffer, bool writes) {
          if (buffer == kNoBuffer) return;
          const int64_t copy =
              copy_touched(segment, instruction, i, buffer_at(program_, buffer).copies);
          const int64_t other =
              access(order, liveness_.copy_id(buffer, copy), k, writes, instruction);
          if (other >= 0) complain(phase, segment, other, k, buffer, copy);
        };
        for (const int buffer : instruction.inputs) visit(buffer, false);
        for (const int buffer : instruction.outputs) visit(buffer, true);
      }
    }
  }

 private:
  // Accesses of a copy in the present iteration. Those of one stream are in order, so the last is
  // enough.
  struct Copy {
    int64_t stamp = -1;
    int64_t write = -1;
    std::array<int64_t, kNumStreams> reads{};
  };

  // Records the access and returns an earlier one that is not ordered with it, or -1.
  int64_t access(const BodyOrder& order, int64_t id, int64_t k, bool writes,
                 const Instruction& instruction) {
    Copy& copy = copies_[static_cast<size_t>(id)];
    if (copy.stamp != stamp_) {
      copy = {stamp_, -1, {}};
      copy.reads.fill(-1);
    }
    int64_t found = -1;
    if (copy.write >= 0 && !order.ordered(copy.write, k)) found = copy.write;
    if (writes) {
      for (const int64_t read : copy.reads) {
        if (read >= 0 && !order.ordered(read, k)) found = read;
      }
      copy.write = k;
      copy.reads.fill(-1);
    } else {
      copy.reads[static_cast<size_t>(instruction.stream)] = k;
    }
    return found;
  }

  void complain(const Phase& phase, const Segment& segment, int64_t a, int64_t b, int buffer,
                int64_t copy) {
    report_.add(
        "phase '{}', segment '{}': instructions {} ({}) and {} ({}) use buffer '{}' (copy {}) on "
        "streams {} and {} in no fixed order",
        phase.name, segment.name, a, segment.body[static_cast<size_t>(a)].op, b,
        segment.body[static_cast<size_t>(b)].op, buffer_at(program_, buffer).name, copy,
        stream_name(segment.body[static_cast<size_t>(a)].stream),
        stream_name(segment.body[static_cast<size_t>(b)].stream));
  }

  const StepProgram& program_;
  const Liveness& liveness_;
  Report& report_;
  int64_t stamp_ = 0;
  std::vector<Copy> copies_;
};

}  // namespace

void accesses_ordered(const StepProgram& program, const Liveness& liveness, Violations& out) {
  Report report("order", out);
  OrderCheck check(program, liveness, report);
  for (size_t p = 0; p < program.phases.size(); ++p) {
    const Phase& phase = program.phases[p];
    for (size_t s = 0; s < phase.segments.size(); ++s) {
      check.run(phase, phase.segments[s], liveness.phases[p].expansion.segments()[s]);
    }
  }
}

}  // namespace plimsoll::rules
