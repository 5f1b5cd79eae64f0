#include "program/verify.h"

#include "base/error.h"
#include "program/verify_rules.h"

namespace plimsoll {

bool is_placed(const StepProgram& program) {
  if (program.header.arena_bytes != 0) return true;
  for (const Buffer& buffer : program.buffers) {
    if (!buffer.offsets.empty()) return true;
  }
  return false;
}

std::vector<Violation> verify(const StepProgram& program) {
  std::vector<Violation> out;
  rules::header_sane(program, out);
  rules::buffer_names_unique(program, out);
  rules::buffer_copies(program, out);
  rules::buffer_sizes(program, out);
  rules::phase_names_unique(program, out);
  rules::segment_repeats(program, out);
  rules::operands_in_range(program, out);
  rules::accumulate_bits(program, out);
  rules::waits_earlier(program, out);
  rules::instruction_fields(program, out);
  if (!out.empty()) return out;
  rules::operand_views(program, out);
  rules::logical_parts(program, out);
  rules::expansion_bounded(program, out);
  if (!out.empty()) return out;

  const Liveness liveness = compute_liveness(program);
  rules::defined_before_use(program, liveness, out);
  rules::persistent_initialised(program, liveness, out);
  rules::inputs_loaded(program, out);
  rules::accesses_ordered(program, liveness, out);
  if (!is_placed(program)) return out;
  const size_t before = out.size();
  rules::offsets_valid(program, liveness, out);
  if (out.size() > before) return out;
  rules::no_overlap(program, liveness, out);
  rules::arena_exact(program, liveness, out);
  rules::arena_end_written(program, liveness, out);
  return out;
}

void verify_or_throw(const StepProgram& program, std::string_view where) {
  const std::vector<Violation> violations = verify(program);
  if (violations.empty()) return;
  constexpr size_t kShown = 5;
  std::string list;
  for (size_t i = 0; i < violations.size() && i < kShown; ++i) {
    list += fmt::format("\n  {}: {}", violations[i].rule, violations[i].message);
  }
  if (violations.size() > kShown)
    list += fmt::format("\n  and {} more", violations.size() - kShown);
  throw bad_input(fmt::format("{}: not a sound program:{}", where, list),
                  "make the program again with `plimsoll plan`, or mend what is listed");
}

}  // namespace plimsoll
