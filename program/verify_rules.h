// The rules of verify, each a function of its own. Internal to verify and its tests.
#pragma once

#include "program/liveness.h"
#include "program/program.h"
#include "program/verify.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace plimsoll::rules {

// Collects a rule's violations and stops keeping them after the first few.
class Report {
 public:
  Report(std::string rule, std::vector<Violation>& out) : rule_(std::move(rule)), out_(out) {}

  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    if (++count_ > kMost) return;
    out_.push_back({rule_, fmt::format(format, std::forward<Args>(args)...)});
  }
  [[nodiscard]] bool any() const { return count_ > 0; }
  [[nodiscard]] bool full() const { return count_ >= kMost; }

 private:
  static constexpr int kMost = 10;
  std::string rule_;
  std::vector<Violation>& out_;
  int count_ = 0;
};

using Violations = std::vector<Violation>;

// Structure (verify_structure.cc). Nothing is assumed.
void header_sane(const StepProgram& program, Violations& out);
void buffer_names_unique(const StepProgram& program, Violations& out);
void buffer_sizes(const StepProgram& program, Violations& out);
void buffer_copies(const StepProgram& program, Violations& out);
void segment_repeats(const StepProgram& program, Violations& out);
void phase_names_unique(const StepProgram& program, Violations& out);
void operands_in_range(const StepProgram& program, Violations& out);
void accumulate_bits(const StepProgram& program, Violations& out);
void waits_earlier(const StepProgram& program, Violations& out);
void operand_views(const StepProgram& program, Violations& out);  // assumes operands, sizes
void instruction_fields(const StepProgram& program, Violations& out);
void expansion_bounded(const StepProgram& program, Violations& out);

// The logical tensors of buffers (verify_logical.cc). Assumes buffer_sizes.
void logical_parts(const StepProgram& program, Violations& out);

// Values (verify_values.cc). Assume the structure.
void defined_before_use(const StepProgram& program, const Liveness& liveness, Violations& out);
void persistent_initialised(const StepProgram& program, const Liveness& liveness, Violations& out);
void inputs_loaded(const StepProgram& program, Violations& out);
void accesses_ordered(const StepProgram& program, const Liveness& liveness, Violations& out);

// Placement (verify_placement.cc). Assume the structure; `no_overlap` assumes offsets_valid.
void offsets_valid(const StepProgram& program, const Liveness& liveness, Violations& out);
void no_overlap(const StepProgram& program, const Liveness& liveness, Violations& out);
void arena_exact(const StepProgram& program, const Liveness& liveness, Violations& out);
void arena_end_written(const StepProgram& program, const Liveness& liveness, Violations& out);

}  // namespace plimsoll::rules
