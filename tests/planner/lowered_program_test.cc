// What holds for every program of program/ holds for lowered ones.
#include "planner/lower/lower.h"
#include "program/expand.h"
#include "program/text.h"
#include "program/timeline.h"
#include "program/verify.h"
#include "tests/planner/random_model.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace plimsoll {
namespace {

std::string first_violation(const StepProgram& program) {
  const std::vector<Violation> violations = verify(program);
  return violations.empty() ? "" : violations[0].rule + ": " + violations[0].message;
}

RC_GTEST_PROP(LoweredProgramProperty, TextReadsBackAfterEveryPass, ()) {
  const testing::RandomCase c = *testing::random_case();
  int passes = 0;
  (void)lower(c.model, c.job, c.strategy, {}, [&](const std::string&, const StepProgram& program) {
    ++passes;
    const std::string text = to_text(program);
    const StepProgram back = parse_text(text, "lowered");
    RC_ASSERT(back == program);
    RC_ASSERT(to_text(back) == text);
  });
  RC_ASSERT(passes > 5);
}

RC_GTEST_PROP(LoweredProgramProperty, FoldedAndFlatAgree, ()) {
  const testing::RandomCase c = *testing::random_case();
  const StepProgram program = lower(c.model, c.job, c.strategy, {});
  RC_ASSERT(is_placed(program));
  RC_ASSERT(first_violation(program) == "");
  const StepProgram flat = expand(program);
  RC_ASSERT(first_violation(flat) == "");
  const MemoryTimeline timeline = compute_timeline(program);
  RC_ASSERT(compute_timeline(flat).live_peak_bytes() == timeline.live_peak_bytes());
  RC_ASSERT(program.header.arena_bytes >= timeline.live_peak_bytes());
}

}  // namespace
}  // namespace plimsoll
