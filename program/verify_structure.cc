#include "program/verify_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

namespace plimsoll::rules {

namespace {

__extension__ using Wide = __int128;

// Calls visit(phase, segment, index, instruction) for every instruction as written.
template <typename Visit>
void for_each_instruction(const StepProgram& program, Visit visit) {
  for (const Phase& phase : program.phases) {
    for (const Segment& segment : phase.segments) {
      for (size_t k = 0; k < segment.body.size(); ++k) visit(phase, segment, k, segment.body[k]);
    }
  }
}

std::string where(const Phase& phase, const Segment& segment, size_t k,
                  const Instruction& instruction) {
  return fmt::format("phase '{}', segment '{}', instruction {} ({})", phase.name, segment.name, k,
                     instruction.op);
}

// A power of two up to 2^30: more would only make rounded sizes overflow.
bool sane_alignment(int64_t alignment) {
  return alignment >= 1 && alignment <= int64_t{1} << 30 && (alignment & (alignment - 1)) == 0;
}

bool non_negative(double value) { return std::isfinite(value) && value >= 0; }

// The first attribute without a name or with a number that is not finite, or null.
const std::pair<std::string, AttributeValue>* bad_attribute(const Attributes& attributes) {
  for (const auto& entry : attributes.entries()) {
    const auto* number = std::get_if<double>(&entry.second);
    if (entry.first.empty() || (number != nullptr && !std::isfinite(*number))) return &entry;
  }
  return nullptr;
}

void check_samples(const SampleIndex& s, Report& report) {
  if (s.global_batch < 1 || s.micro_batch < 1 || s.first < 0 || s.per_microbatch < 1 ||
      s.num_microbatches < 1) {
    report.add(
        "sample index has a number that is too small: global_batch {}, micro_batch {}, first {}, "
        "per_microbatch {}, num_microbatches {}",
        s.global_batch, s.micro_batch, s.first, s.per_microbatch, s.num_microbatches);
    return;
  }
  const Wide last = Wide{s.first} + Wide{s.num_microbatches - 1} * s.per_microbatch + s.micro_batch;
  if (last > s.global_batch) {
    report.add(
        "the last sample of the last micro-batch lies outside the global batch of {}: first {}, "
        "{} micro-batches of {} at distance {}",
        s.global_batch, s.first, s.num_microbatches, s.micro_batch, s.per_microbatch);
  }
  if (s.num_microbatches > 1 && s.per_microbatch < s.micro_batch) {
    report.add("micro-batches of {} samples at distance {} share samples", s.micro_batch,
               s.per_microbatch);
  }
}

void check_coordinates(const Coordinates& c, Report& report) {
  const auto check = [&](const char* name, int at, int size) {
    if (size < 1 || at < 0 || at >= size) report.add("coordinate {} is {} of {}", name, at, size);
  };
  check("dp", c.dp, c.dp_size);
  check("tp", c.tp, c.tp_size);
  check("pp", c.pp, c.pp_size);
  check("cp", c.cp, c.cp_size);
  check("ep", c.ep, c.ep_size);
}

}  // namespace

void header_sane(const StepProgram& program, Violations& out) {
  Report report("header", out);
  const Header& h = program.header;
  if (h.version != 1) report.add("version {} is not known; this is version 1", h.version);
  if (h.rank < 0) report.add("rank {}", h.rank);
  if (!sane_alignment(h.alignment)) {
    report.add("alignment {} is not a power of two up to 2^30", h.alignment);
  }
  if (h.arena_bytes < 0 || h.outside_bytes < 0 ||
      h.arena_bytes > std::numeric_limits<int64_t>::max() - h.outside_bytes) {
    report.add("arena_bytes {} or outside_bytes {} is negative, or their sum overflows",
               h.arena_bytes, h.outside_bytes);
  }
  if (!non_negative(h.model_flops) || !non_negative(h.hardware_flops) ||
      !non_negative(h.peak_flops_per_second) || !non_negative(h.predicted_step_seconds)) {
    report.add(
        "a number is negative or not finite: model_flops {}, hardware_flops {}, "
        "peak_flops_per_second {}, predicted_step_seconds {}",
        h.model_flops, h.hardware_flops, h.peak_flops_per_second, h.predicted_step_seconds);
  }
  if (const auto* bad = bad_attribute(h.hyperparameters)) {
    report.add("hyper-parameter '{}' has no name or is not finite", bad->first);
  }
  check_samples(h.samples, report);
  check_coordinates(h.coordinates, report);
}

void buffer_names_unique(const StepProgram& program, Violations& out) {
  Report report("buffer-name", out);
  std::unordered_set<std::string_view> seen;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const std::string& name = program.buffers[b].name;
    if (name.empty()) report.add("buffer {} has no name", b);
    if (!seen.insert(name).second) report.add("two buffers are named '{}'", name);
  }
}

void buffer_sizes(const StepProgram& program, Violations& out) {
  Report report("buffer-size", out);
  // Half of the range, so that no later sum with the outside bytes or a rounding up can overflow.
  constexpr Wide kMost = std::numeric_limits<int64_t>::max() / 2;
  // The header's own rule reports a bad alignment.
  const int64_t alignment = sane_alignment(program.header.alignment) ? program.header.alignment : 1;
  Wide total = 0;
  for (const Buffer& buffer : program.buffers) {
    Wide bytes = dtype_bytes(buffer.dtype);
    bool positive = true;
    for (const int64_t extent : buffer.shape) {
      positive = positive && extent > 0;
      if (positive && bytes <= kMost) bytes *= extent;  // below 2^63 * 2^63: fits
    }
    if (!positive) {
      report.add("buffer '{}' has shape {}", buffer.name, shape_text(buffer.shape));
      continue;
    }
    if (bytes <= kMost) total += (bytes + alignment) * (buffer.copies < 1 ? 1 : buffer.copies);
    if (bytes > kMost || total > kMost) {
      report.add("buffer '{}', {} {}, {} copies: the sizes up to here overflow", buffer.name,
                 dtype_name(buffer.dtype), shape_text(buffer.shape), buffer.copies);
      return;
    }
  }
}

void buffer_copies(const StepProgram& program, Violations& out) {
  Report report("copies", out);
  int64_t total = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.copies < 1) report.add("buffer '{}' has {} copies", buffer.name, buffer.copies);
    total += buffer.copies;  // a sum of a file's entries, each below 2^31
  }
  const auto phases = static_cast<int64_t>(program.phases.size());
  if (total > kMaxCopies || phases > kMaxCopies || total * phases > kMaxCopies) {
    report.add("{} buffer copies in {} phases are more than {}", total, phases, kMaxCopies);
  }
}

void phase_names_unique(const StepProgram& program, Violations& out) {
  Report report("phase-name", out);
  std::unordered_set<std::string_view> seen;
  for (const Phase& phase : program.phases) {
    if (phase.name.empty()) report.add("a phase has no name");
    if (!seen.insert(phase.name).second) report.add("two phases are named '{}'", phase.name);
  }
}

void segment_repeats(const StepProgram& program, Violations& out) {
  Report report("repeat", out);
  for (const Phase& phase : program.phases) {
    for (const Segment& segment : phase.segments) {
      if (segment.repeat < 1) {
        report.add("phase '{}', segment '{}': repeat {}", phase.name, segment.name, segment.repeat);
      }
    }
  }
  for_each_instruction(program, [&](const Phase& phase, const Segment& segment, size_t k,
                                    const Instruction& instruction) {
    const Wide first = Wide{segment.first_microbatch} + instruction.microbatch;
    const Wide last = first + Wide{segment.repeat - 1} * segment.microbatch_stride;
    if (segment.repeat < 1) return;
    if (first < 0 || last < 0 || first > std::numeric_limits<int64_t>::max() ||
        last > std::numeric_limits<int64_t>::max()) {
      report.add(
          "{}: a micro-batch index is negative or overflows (first {}, stride {}, repeat {}, "
          "relative {})",
          where(phase, segment, k, instruction), segment.first_microbatch,
          segment.microbatch_stride, segment.repeat, instruction.microbatch);
    }
  });
}

void operands_in_range(const StepProgram& program, Violations& out) {
  Report report("operand", out);
  const auto num_buffers = static_cast<int64_t>(program.buffers.size());
  for_each_instruction(program, [&](const Phase& phase, const Segment& segment, size_t k,
                                    const Instruction& instruction) {
    for (const std::vector<int>* list : {&instruction.inputs, &instruction.outputs}) {
      for (const int buffer : *list) {
        if (buffer != kNoBuffer && (buffer < 0 || buffer >= num_buffers)) {
          report.add("{}: operand {} of {} buffers", where(phase, segment, k, instruction), buffer,
                     num_buffers);
        }
      }
    }
    if (instruction.outputs.size() < 2) return;
    std::vector<int> written = instruction.outputs;
    std::erase(written, kNoBuffer);
    std::sort(written.begin(), written.end());
    const auto twice = std::adjacent_find(written.begin(), written.end());
    if (twice != written.end()) {
      report.add("{}: buffer {} is two of its outputs", where(phase, segment, k, instruction),
                 *twice);
    }
  });
}

void accumulate_bits(const StepProgram& program, Violations& out) {
  Report report("accumulate", out);
  for_each_instruction(program, [&](const Phase& phase, const Segment& segment, size_t k,
                                    const Instruction& instruction) {
    for (size_t bit = 0; bit < 32; ++bit) {
      if (!accumulates(instruction, bit)) continue;
      if (bit >= instruction.outputs.size() || instruction.outputs[bit] == kNoBuffer) {
        report.add("{}: accumulates into output {}, which is absent",
                   where(phase, segment, k, instruction), bit);
      }
    }
  });
}

void waits_earlier(const StepProgram& program, Violations& out) {
  Report report("wait", out);
  for_each_instruction(program, [&](const Phase& phase, const Segment& segment, size_t k,
                                    const Instruction& instruction) {
    for (const int wait : instruction.waits) {
      if (wait < 0 || static_cast<size_t>(wait) >= k) {
        report.add("{}: waits for instruction {}, which is not an earlier one of its body",
                   where(phase, segment, k, instruction), wait);
      } else if (segment.body[static_cast<size_t>(wait)].stream == instruction.stream) {
        report.add("{}: waits for instruction {} of its own stream",
                   where(phase, segment, k, instruction), wait);
      }
    }
  });
}

void operand_views(const StepProgram& program, Violations& out) {
  Report report("view", out);
  // Elements of a shape, or -1 when it has a zero, a negative or too many.
  const auto elements = [](const Shape& shape) {
    int64_t product = 1;
    for (const int64_t extent : shape) {
      if (extent < 1 || __builtin_mul_overflow(product, extent, &product)) return int64_t{-1};
    }
    return product;
  };
  for_each_instruction(program, [&](const Phase& phase, const Segment& segment, size_t k,
                                    const Instruction& instruction) {
    const size_t num_inputs = instruction.inputs.size();
    for (const OperandShape& view : instruction.views) {
      const auto operand = static_cast<size_t>(view.operand);
      int buffer = kNoBuffer;
      if (view.operand >= 0 && operand < num_inputs) buffer = instruction.inputs[operand];
      if (operand >= num_inputs && operand - num_inputs < instruction.outputs.size()) {
        buffer = instruction.outputs[operand - num_inputs];
      }
      if (view.operand < 0 || buffer == kNoBuffer) {
        report.add("{}: a view of operand {}, which is absent",
                   where(phase, segment, k, instruction), view.operand);
        continue;
      }
      const Buffer& target = program.buffers[static_cast<size_t>(buffer)];
      if (elements(view.shape) != num_elements(target.shape)) {
        report.add("{}: operand {} views buffer '{}' of shape {} as {}",
                   where(phase, segment, k, instruction), view.operand, target.name,
                   shape_text(target.shape), shape_text(view.shape));
      }
    }
  });
}

void instruction_fields(const StepProgram& program, Violations& out) {
  Report report("instruction", out);
  for_each_instruction(program, [&](const Phase& phase, const Segment& segment, size_t k,
                                    const Instruction& instruction) {
    if (instruction.op.empty()) {
      report.add("{}: no operation is named", where(phase, segment, k, instruction));
    }
    if (!non_negative(instruction.flops) || !non_negative(instruction.bytes_moved)) {
      report.add("{}: flops {} or bytes_moved {} is negative or not finite",
                 where(phase, segment, k, instruction), instruction.flops, instruction.bytes_moved);
    }
    if (const auto* bad = bad_attribute(instruction.attributes)) {
      report.add("{}: attribute '{}' has no name or is not finite",
                 where(phase, segment, k, instruction), bad->first);
    }
  });
}

void expansion_bounded(const StepProgram& program, Violations& out) {
  Report report("expansion", out);
  int64_t touches = 0;
  for (const Phase& phase : program.phases) {
    try {
      touches += PhaseExpansion(program, phase).num_touches();
    } catch (const Error& error) {
      report.add("{}", error.what());
      return;
    }
    if (touches > kMaxTouches) {
      report.add("more than {} operands would have to be looked at, up to phase '{}'", kMaxTouches,
                 phase.name);
      return;
    }
  }
}

}  // namespace plimsoll::rules
