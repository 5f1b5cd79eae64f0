#include "reports/trace.h"

#include "planner/lower/lower.h"
#include "program/timeline.h"
#include "tests/costmodel/pipeline_programs.h"
#include "tests/costmodel/unit_time.h"
#include "tests/planner/random_model.h"
#include "tests/program/random_program.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <map>
#include <set>

namespace plimsoll {
namespace {

using nlohmann::json;

struct Slice {
  int64_t begin = 0;  // nanoseconds
  int64_t end = 0;
  std::string name;
};
using Thread = std::pair<int, int>;

int64_t nanoseconds(const json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000);
}

// What a trace shows, checked on the way: valid JSON, slices in order, flows in slices.
struct Trace {
  std::map<Thread, std::vector<Slice>> slices;
  std::map<int, int64_t> counter_peak;  // of each stage: the largest sum over categories
  size_t num_messages = 0;
  std::set<std::string> names;

  explicit Trace(const std::string& text) {
    const json trace = json::parse(text);
    std::map<int64_t, std::vector<std::pair<std::string, int64_t>>> flows;
    std::vector<std::pair<Thread, int64_t>> flow_points;
    for (const json& event : trace.at("traceEvents")) {
      const std::string kind = event.at("ph");
      if (kind == "M") continue;
      const int stage = event.at("pid");
      const int64_t at = nanoseconds(event.at("ts"));
      if (kind == "C") {
        int64_t sum = 0;
        for (const auto& [category, bytes] : event.at("args").items()) {
          RC_ASSERT(parse_category(category).has_value());
          sum += bytes.get<int64_t>();
        }
        counter_peak[stage] = std::max(counter_peak[stage], sum);
        continue;
      }
      const Thread thread{stage, event.at("tid")};
      if (kind == "X") {
        slices[thread].push_back({at, at + nanoseconds(event.at("dur")), event.at("name")});
        names.insert(event.at("name"));
        continue;
      }
      RC_ASSERT((kind == "s" || kind == "f"));
      flows[event.at("id")].emplace_back(kind, at);
      flow_points.emplace_back(thread, at);
    }
    for (const auto& [thread, list] : slices) {
      for (size_t i = 1; i < list.size(); ++i) RC_ASSERT(list[i - 1].end <= list[i].begin);
    }
    for (const auto& [thread, at] : flow_points) {
      const std::vector<Slice>& list = slices[thread];
      RC_ASSERT(std::any_of(list.begin(), list.end(), [at = at](const Slice& slice) {
        return slice.begin <= at && at <= slice.end;
      }));
    }
    for (auto& [message, ends] : flows) {
      std::sort(ends.begin(), ends.end());
      RC_ASSERT(ends.size() == 2U);
      RC_ASSERT(ends[0].first == "f");
      RC_ASSERT(ends[1].first == "s");
      RC_ASSERT(ends[1].second <= ends[0].second);
    }
    num_messages = flows.size();
  }
};

SimulateOptions recorded() {
  SimulateOptions options;
  options.record_events = true;
  return options;
}

RC_GTEST_PROP(Trace, OfPipelines, ()) {
  const auto kind = static_cast<ScheduleKind>(*rc::gen::inRange(0, kNumScheduleKinds));
  Pipeline pipeline{kind,
                    *rc::gen::inRange(1, 5),
                    0,
                    1,
                    equal_stages(*rc::gen::inRange(0, 5) / 3.0, *rc::gen::inRange(0, 5) / 7.0, 0.3),
                    *rc::gen::inRange(0, 3),
                    *rc::gen::inRange(1, 4)};
  pipeline.microbatches = int64_t{pipeline.stages} * *rc::gen::inRange(1, 4);
  if (kind == ScheduleKind::kInterleaved) pipeline.chunks = *rc::gen::inRange(1, 3);
  const std::vector<StepProgram> programs = pipeline_programs(pipeline);
  const SimulatedRun run =
      simulate_ranks(programs, Cluster{}, FlopsAreSeconds(), BytesAreSeconds(), recorded());
  const Trace all(trace_json(programs, run));
  int64_t slices = 0;
  int64_t last = 0;
  for (const auto& [thread, list] : all.slices) {
    slices += static_cast<int64_t>(list.size());
    last = std::max(last, list.back().end);
  }
  RC_ASSERT(slices == run.num_instructions);
  RC_ASSERT(last == std::llround(run.step_seconds * 1e9));
  size_t sends = 0;
  for (const StepProgram& program : programs) {
    for (const Instruction& instruction : program.phases[0].segments[0].body) {
      sends += instruction.op == "send" ? 1 : 0;
    }
  }
  RC_ASSERT(all.num_messages == sends);
  RC_ASSERT(all.names.size() <= 6U);
  // Joined: fewer slices over the same time, and the same messages.
  const Trace joined(trace_json(programs, run, {.max_slices = 0}));
  RC_ASSERT(joined.num_messages == all.num_messages);
  for (const auto& [thread, list] : joined.slices) {
    const std::vector<Slice>& whole = all.slices.at(thread);
    RC_ASSERT(list.size() <= whole.size());
    RC_ASSERT(list.front().begin == whole.front().begin);
    RC_ASSERT(list.back().end == whole.back().end);
    int64_t busy = 0;
    for (const Slice& slice : whole) busy += slice.end - slice.begin;
    for (const Slice& slice : list) busy -= slice.end - slice.begin;
    RC_ASSERT(busy == 0);
  }
}

// The counter's peak is the predicted live peak of the phase.
void expect_counter_peak(const StepProgram& program) {
  const Cluster cluster = parse_cluster("4xa100-40gb");
  const MemoryTimeline timeline = compute_timeline(program);
  for (size_t p = 0; p < program.phases.size(); ++p) {
    SimulateOptions options = recorded();
    options.phase = program.phases[p].name;
    const SimulatedRun run = simulate_ranks({&program, 1}, cluster, options);
    if (run.num_instructions == 0) continue;
    const Trace trace(trace_json({&program, 1}, run, {.phase = options.phase}));
    RC_ASSERT(trace.counter_peak.at(0) == timeline.phases[p].peak.live_bytes);
  }
}

RC_GTEST_PROP(Trace, CounterPeakIsTheLivePeak, ()) {
  expect_counter_peak(testing::random_program());
}

RC_GTEST_PROP(Trace, CounterPeakOfLoweredProgramsIsTheLivePeak, ()) {
  const testing::RandomCase c = *testing::random_case();
  expect_counter_peak(lower(c.model, c.job, c.strategy));
}

// Names from files are text, whatever they hold.
TEST(Trace, NamesAreEscaped) {
  ProgramBuilder builder;
  builder.header().model = "a \"model\"\n\xff";
  builder.phase("step").segment("x\\y", 2, 3);
  builder.emit("odd\top", {}, {}).layer = 7;
  const StepProgram program = std::move(builder).build();
  const SimulatedRun run = simulate_ranks({&program, 1}, parse_cluster("1xa100-40gb"), recorded());
  const json trace = json::parse(trace_json({&program, 1}, run));
  EXPECT_EQ(trace["otherData"]["model"], "a \"model\"\n\xef\xbf\xbd");
  const json& last = trace["traceEvents"].at(4);
  EXPECT_EQ(last["name"], "forward");
  EXPECT_EQ(last["args"], (json{{"micro-batch", 4},
                                {"segment", "x\\y"},
                                {"op", "odd\top"},
                                {"instruction", 0},
                                {"layer", 7}}));
}

}  // namespace
}  // namespace plimsoll
