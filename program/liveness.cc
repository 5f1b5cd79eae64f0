#include "program/liveness.h"

#include "base/error.h"
#include "program/order.h"

#include <algorithm>

namespace plimsoll {

namespace {

// Follows every copy through one phase, instruction by instruction.
class PhaseWalk {
 public:
  PhaseWalk(const StepProgram& program, const Phase& phase, const Liveness& ids)
      : program_(program),
        phase_(phase),
        ids_(ids),
        result_{PhaseExpansion(program, phase), {}, {}, {}},
        values_(static_cast<size_t>(ids.num_copies())) {
    result_.live.resize(values_.size());
    result_.defined.resize(values_.size());
  }

  PhaseLiveness run() && {
    for (size_t s = 0; s < phase_.segments.size(); ++s) {
      walk_segment(phase_.segments[s], result_.expansion.segments()[s]);
    }
    for (size_t id = 0; id < values_.size(); ++id) close(id);
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      if (!program_.buffers[b].persistent) continue;
      const Interval always = {0, result_.expansion.num_positions()};
      for (int64_t id = ids_.first_copy[b]; id < ids_.first_copy[b + 1]; ++id) {
        result_.live[static_cast<size_t>(id)].assign(always.empty() ? 0 : 1, always);
      }
    }
    return std::move(result_);
  }

 private:
  // The value that a copy holds now: [start, release) so far; no value while start is negative.
  struct Value {
    int64_t start = -1;
    int64_t release = -1;
  };

  void walk_segment(const Segment& segment, const SegmentExpansion& kept) {
    const BodyOrder order(segment.body);
    for (int64_t i = 0; i < kept.iterations; ++i) {
      const int64_t iteration = kept.written_iteration(i);
      const int64_t base = kept.first_position + i * kept.body_size;
      for (int64_t k = 0; k < kept.body_size; ++k) {
        const Instruction& instruction = segment.body[static_cast<size_t>(k)];
        touch(segment, instruction, iteration, base + k, base + order.release(k));
      }
    }
  }

  void touch(const Segment& segment, const Instruction& instruction, int64_t iteration,
             int64_t position, int64_t release) {
    const auto copy_of = [&](int buffer) {
      return copy_touched(segment, instruction, iteration,
                          program_.buffers[static_cast<size_t>(buffer)].copies);
    };
    for (const int buffer : instruction.inputs) {
      if (buffer != kNoBuffer) read(buffer, copy_of(buffer), position, release);
    }
    for (size_t k = 0; k < instruction.outputs.size(); ++k) {
      const int buffer = instruction.outputs[k];
      if (buffer != kNoBuffer && accumulates(instruction, k)) {
        read(buffer, copy_of(buffer), position, release);
      }
    }
    for (size_t k = 0; k < instruction.outputs.size(); ++k) {
      const int buffer = instruction.outputs[k];
      if (buffer != kNoBuffer && !accumulates(instruction, k)) {
        define(static_cast<size_t>(ids_.copy_id(buffer, copy_of(buffer))), position, release);
      }
    }
  }

  void read(int buffer, int64_t copy, int64_t position, int64_t release) {
    Value& value = values_[static_cast<size_t>(ids_.copy_id(buffer, copy))];
    if (value.start < 0) {
      value.start = 0;
      result_.undefined_reads.push_back({buffer, copy, position});
    }
    value.release = std::max(value.release, release);
  }

  void define(size_t id, int64_t position, int64_t release) {
    close(id);
    values_[id] = {position, release};
    result_.defined[id] = true;
  }

  void close(size_t id) {
    const Value& value = values_[id];
    if (value.start < 0) return;
    std::vector<Interval>& live = result_.live[id];
    if (!live.empty() && value.start <= live.back().upper) {
      live.back().upper = std::max(live.back().upper, value.release);
    } else {
      live.push_back({value.start, value.release});
    }
  }

  const StepProgram& program_;
  const Phase& phase_;
  const Liveness& ids_;
  PhaseLiveness result_;
  std::vector<Value> values_;
};

}  // namespace

Liveness compute_liveness(const StepProgram& program) {
  Liveness out;
  int64_t num_copies = 0;
  for (const Buffer& buffer : program.buffers) {
    out.first_copy.push_back(num_copies);
    num_copies += buffer.copies;
  }
  out.first_copy.push_back(num_copies);
  const auto num_phases = static_cast<int64_t>(program.phases.size());
  if (num_copies > kMaxCopies / std::max<int64_t>(1, num_phases)) {
    throw bad_input(
        fmt::format("{} buffer copies in {} phases are too many", num_copies, num_phases),
        "use fewer copies");
  }
  for (const Phase& phase : program.phases) {
    out.phases.push_back(PhaseWalk(program, phase, out).run());
  }
  return out;
}

}  // namespace plimsoll
