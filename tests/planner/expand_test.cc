// The folded program and the flat one agree on everything: liveness, timeline, placement, verify.
#include "program/expand.h"

#include "planner/placement.h"
#include "program/builder.h"
#include "program/timeline.h"
#include "program/verify.h"
#include "tests/program/random_program.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

namespace plimsoll {
namespace {

std::string first_violation(const StepProgram& program) {
  const std::vector<Violation> violations = verify(program);
  return violations.empty() ? "" : violations[0].rule + ": " + violations[0].message;
}

using LiveSet = std::vector<LiveCopy>;

// By iteration as written and instruction: what is live.
std::map<std::pair<int64_t, int64_t>, LiveSet> folded_sets(const StepProgram& program,
                                                           const Liveness& liveness, int phase,
                                                           int segment) {
  std::map<std::pair<int64_t, int64_t>, LiveSet> out;
  const PhaseExpansion& expansion = liveness.phases[static_cast<size_t>(phase)].expansion;
  for (int64_t position = 0; position < expansion.num_positions(); ++position) {
    const FoldedPosition at = expansion.locate(position);
    if (at.segment != segment) continue;
    out[{at.iteration, at.index}] = live_at(program, liveness, phase, position, Place::kDevice);
  }
  return out;
}

// A long segment has in every iteration a set of live copies that the cut expansion has too: the
// very same one where the iteration is kept, that of an equal number modulo the period where it is
// not.
RC_GTEST_PROP(ExpandProperty, CutExpansionHasEverySetOfLiveCopies, ()) {
  testing::RandomProgramOptions options;
  options.max_repeat = 120;
  options.max_buffers = 6;
  const StepProgram program = testing::random_program(options);
  const StepProgram flat = expand(program);
  const Liveness folded_live = compute_liveness(program);
  const Liveness flat_live = compute_liveness(flat);
  for (int p = 0; p < static_cast<int>(program.phases.size()); ++p) {
    int64_t position = 0;
    const Phase& phase = program.phases[static_cast<size_t>(p)];
    const PhaseExpansion& expansion = folded_live.phases[static_cast<size_t>(p)].expansion;
    for (int s = 0; s < static_cast<int>(phase.segments.size()); ++s) {
      const SegmentExpansion& kept = expansion.segments()[static_cast<size_t>(s)];
      const auto sets = folded_sets(program, folded_live, p, s);
      for (int64_t i = 0; i < kept.repeat && kept.body_size > 0; ++i) {
        for (int64_t k = 0; k < kept.body_size; ++k, ++position) {
          const LiveSet live = live_at(flat, flat_live, p, position, Place::kDevice);
          const bool is_kept = sets.count({i, k}) != 0;
          RC_ASSERT(live == sets.at({is_kept ? i : i % kept.period + kept.period, k}));
        }
      }
    }
  }
}

RC_GTEST_PROP(ExpandProperty, PeaksAgree, ()) {
  testing::RandomProgramOptions options;
  options.max_repeat = 60;
  const StepProgram program = testing::random_program(options);
  const MemoryTimeline folded = compute_timeline(program);
  const MemoryTimeline flat = compute_timeline(expand(program));
  RC_ASSERT(folded.phases.size() == flat.phases.size());
  for (size_t p = 0; p < folded.phases.size(); ++p) {
    RC_ASSERT(folded.phases[p].peak.live_bytes == flat.phases[p].peak.live_bytes);
    RC_ASSERT(folded.phases[p].peak.by_category == flat.phases[p].peak.by_category);
    RC_ASSERT(folded.phases[p].host_peak.live_bytes == flat.phases[p].host_peak.live_bytes);
  }
}

// A placement of either form is one of the other, and no lower than the live peak.
RC_GTEST_PROP(ExpandProperty, PlacementsHoldForBothForms, ()) {
  testing::RandomProgramOptions options;
  options.max_repeat = 40;
  StepProgram program = testing::random_program(options);
  RC_ASSERT(first_violation(program) == "");
  RC_ASSERT(!is_placed(program) || program.buffers.empty());
  place_buffers(program);
  RC_ASSERT(first_violation(program) == "");
  RC_ASSERT(first_violation(expand(program)) == "");
  const MemoryTimeline timeline = compute_timeline(program);
  RC_ASSERT(program.header.arena_bytes >= timeline.live_peak_bytes());
  int64_t highest = 0;
  for (const PhaseTimeline& phase : timeline.phases) highest = std::max(highest, phase.arena_bytes);
  RC_ASSERT(highest == program.header.arena_bytes);

  StepProgram flat = expand(program);
  place_buffers(flat);
  RC_ASSERT(first_violation(flat) == "");
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    program.buffers[b].offsets = flat.buffers[b].offsets;
  }
  program.header.arena_bytes = flat.header.arena_bytes;
  RC_ASSERT(first_violation(program) == "");
}

// Moving one live copy onto another is found in both forms.
RC_GTEST_PROP(ExpandProperty, VerifyAgreesOnSpoiltOffsets, ()) {
  StepProgram program = testing::random_program();
  place_buffers(program);
  RC_PRE(!program.buffers.empty());
  Buffer& spoilt = program.buffers[*rc::gen::inRange<size_t>(0, program.buffers.size())];
  RC_PRE(!spoilt.offsets.empty());
  spoilt.offsets.back() =
      program.header.alignment *
      *rc::gen::inRange<int64_t>(0, program.header.arena_bytes / program.header.alignment + 1);
  const auto rules_broken = [](const StepProgram& p) {
    std::set<std::string> out;
    for (const Violation& violation : verify(p)) out.insert(violation.rule);
    return out;
  };
  RC_ASSERT(rules_broken(program) == rules_broken(expand(program)));
}

TEST(Expand, MakesMicrobatchesAbsolute) {
  ProgramBuilder builder;
  const int x = builder.add_buffer("x", Category::kActivations, DType::kF32, {4});
  builder.phase("step").segment("steady", 3, 10, 2);
  builder.emit("fill", {}, {x}).microbatch = 1;
  const StepProgram flat = expand(builder.program());
  ASSERT_EQ(flat.phases[0].segments.size(), 3U);
  EXPECT_EQ(flat.phases[0].segments[2].name, "steady.2");
  EXPECT_EQ(flat.phases[0].segments[2].repeat, 1);
  EXPECT_EQ(flat.phases[0].segments[2].first_microbatch, 0);
  EXPECT_EQ(flat.phases[0].segments[2].body[0].microbatch, 15);
}

TEST(Expand, RefusesWhatWouldNotFit) {
  ProgramBuilder builder;
  const int x = builder.add_buffer("x", Category::kActivations, DType::kF32, {4});
  builder.phase("step").segment("steady", int64_t{1} << 60);
  builder.emit("fill", {}, {x});
  EXPECT_THROW((void)expand(builder.program()), Error);
}

}  // namespace
}  // namespace plimsoll
