#include "reports/trace.h"

#include "base/error.h"
#include "program/timeline.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace plimsoll {

namespace {

constexpr int kReceiveThread = kNumStreams + 1;

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

// Trace times are microseconds; three digits hold the nanoseconds.
std::string microseconds(int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

struct Slice {
  const Instruction* instruction = nullptr;
  const SimulatedEvent* event = nullptr;  // the first of those joined
  std::string name;
  int thread = 0;
  int64_t begin = 0;  // nanoseconds
  int64_t end = 0;
  int64_t count = 1;  // instructions joined
};

std::string name_of(const Instruction& instruction) {
  if (instruction.op == "send" || instruction.op == "receive") {
    return fmt::format("{} {}", instruction.op, instruction.attributes.get_string("peer", ""));
  }
  if (find_collective(instruction.op)) {
    return fmt::format("{} {}", instruction.op, instruction.attributes.get_string("group", "dp"));
  }
  return std::string(pass_name(instruction.pass));
}

// The live bytes of an instruction by category, looked up by where it is.
class LiveBytes {
 public:
  LiveBytes(const StepProgram& program, const Phase& phase) : phase_(phase) {
    const auto index = static_cast<size_t>(&phase - program.phases.data());
    points_ = std::move(compute_timeline(program).phases[index].points);
    for (size_t i = 0; i < points_.size(); ++i) {
      const FoldedPosition& at = points_[i].folded;
      if (at.index == 0) first_[{at.segment, at.kind}] = i;
      for (int c = 0; c < kNumCategories; ++c) {
        if (points_[i].by_category[static_cast<size_t>(c)] > 0)
          used_.at(static_cast<size_t>(c)) = true;
      }
    }
  }

  const CategoryBytes& at(const SimulatedEvent& event) const {
    const int64_t repeat = phase_.segments[static_cast<size_t>(event.segment)].repeat;
    IterationKind kind = IterationKind::kMiddle;
    if (repeat == 1) {
      kind = IterationKind::kOnly;
    } else if (event.iteration == 0) {
      kind = IterationKind::kFirst;
    } else if (event.iteration == repeat - 1) {
      kind = IterationKind::kLast;
    }
    return points_.at(first_.at({event.segment, kind}) + static_cast<size_t>(event.instruction))
        .by_category;
  }
  [[nodiscard]] bool used(int category) const { return used_.at(static_cast<size_t>(category)); }

 private:
  const Phase& phase_;
  std::vector<TimelinePoint> points_;
  std::map<std::pair<int, IterationKind>, size_t> first_;  // point of a body's instruction 0
  std::array<bool, kNumCategories> used_{};
};

class TraceWriter {
 public:
  TraceWriter(std::span<const StepProgram> stages, const SimulatedRun& run,
              const TraceOptions& options)
      : stages_(stages),
        run_(run),
        options_(options),
        joins_(static_cast<int64_t>(run.events.size()) > options.max_slices) {}

  std::string write() {
    for (const SimulatedEvent& event : run_.events) {
      const StepProgram& program = stages_[static_cast<size_t>(event.stage)];
      const Segment& segment =
          program.find_phase(options_.phase)->segments[static_cast<size_t>(event.segment)];
      if (event.message >= 0 && segment.body[static_cast<size_t>(event.instruction)].op == "send") {
        sent_[event.message] = nanoseconds(event.begin);
      }
    }
    for (size_t s = 0; s < stages_.size(); ++s) write_stage(static_cast<int>(s));
    return fmt::format(
        "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"model\":{},\"step_seconds\":{}}},\n"
        "\"traceEvents\":[\n{}\n]}}\n",
        json_text(stages_.empty() ? "" : stages_[0].header.model), run_.step_seconds, out_);
  }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    if (!out_.empty()) out_ += ",\n";
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void write_stage(int stage) {
    const StepProgram& program = stages_[static_cast<size_t>(stage)];
    const Phase* phase = program.find_phase(options_.phase);
    PLIMSOLL_CHECK(phase != nullptr, "stage {} has no phase {}", stage, options_.phase);
    std::vector<const SimulatedEvent*> events;
    for (const SimulatedEvent& event : run_.events) {
      if (event.stage == stage) events.push_back(&event);
    }
    std::stable_sort(events.begin(), events.end(),
                     [](const SimulatedEvent* a, const SimulatedEvent* b) {
                       return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
                     });
    add(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"stage {} · rank {}"}}}})",
        stage, stage, program.header.rank);
    add(R"({{"ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}}}})", stage,
        stage);
    write_slices(stage, *phase, events);
    write_memory(stage, LiveBytes(program, *phase), events);
  }

  void write_slices(int stage, const Phase& phase,
                    const std::vector<const SimulatedEvent*>& events) {
    std::array<std::vector<Slice>, kReceiveThread + 1> threads;
    for (const SimulatedEvent* event : events) {
      const Segment& segment = phase.segments[static_cast<size_t>(event->segment)];
      Slice slice;
      slice.event = event;
      slice.instruction = &segment.body[static_cast<size_t>(event->instruction)];
      slice.name = name_of(*slice.instruction);
      slice.thread = slice.instruction->op == "receive"
                         ? kReceiveThread
                         : static_cast<int>(slice.instruction->stream) + 1;
      slice.begin = nanoseconds(event->begin);
      slice.end = nanoseconds(event->end);
      std::vector<Slice>& thread = threads.at(static_cast<size_t>(slice.thread));
      if (joins_ && event->message < 0 && !thread.empty() && continues(thread.back(), slice)) {
        thread.back().end = slice.end;
        ++thread.back().count;
      } else {
        thread.push_back(std::move(slice));
      }
    }
    for (size_t t = 0; t < threads.size(); ++t) {
      if (threads[t].empty()) continue;
      add(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})", stage, t,
          t == kReceiveThread ? "receive" : stream_name(static_cast<Stream>(t - 1)));
      for (const Slice& slice : threads[t]) write_slice(stage, phase, slice);
    }
  }

  // A slice of the same name and iteration that begins where the one before ends.
  static bool continues(const Slice& before, const Slice& slice) {
    return before.end == slice.begin && before.name == slice.name &&
           before.event->segment == slice.event->segment &&
           before.event->iteration == slice.event->iteration &&
           before.instruction->microbatch == slice.instruction->microbatch;
  }

  void write_slice(int stage, const Phase& phase, const Slice& slice) {
    const Segment& segment = phase.segments[static_cast<size_t>(slice.event->segment)];
    const int64_t microbatch = segment.first_microbatch +
                               slice.event->iteration * segment.microbatch_stride +
                               slice.instruction->microbatch;
    std::string args =
        fmt::format(R"("micro-batch":{},"segment":{})", microbatch, json_text(segment.name));
    if (slice.count > 1) {
      args += fmt::format(R"(,"instructions":{})", slice.count);
    } else {
      args += fmt::format(R"(,"op":{},"instruction":{})", json_text(slice.instruction->op),
                          slice.event->instruction);
      if (slice.instruction->layer >= 0) {
        args += fmt::format(R"(,"layer":{})", slice.instruction->layer);
      }
    }
    add(R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
        json_text(slice.name), stream_name(slice.instruction->stream), stage, slice.thread,
        microseconds(slice.begin), microseconds(slice.end - slice.begin), args);
    if (slice.event->message >= 0) write_flow(stage, slice);
  }

  // An arrow from the beginning of the send to just before the receive's end.
  void write_flow(int stage, const Slice& slice) {
    const bool send = slice.instruction->op == "send";
    const auto sent = sent_.find(slice.event->message);
    int64_t at = slice.begin;
    if (!send) at = std::max(slice.begin, slice.end - 1);
    if (!send && sent != sent_.end()) at = std::max(at, sent->second);
    add(R"({{"ph":"{}",{}"name":"message","cat":"pipeline","id":{},"pid":{},"tid":{},"ts":{}}})",
        send ? "s" : "f", send ? "" : R"("bp":"e",)", slice.event->message, stage, slice.thread,
        microseconds(at));
  }

  void write_memory(int stage, const LiveBytes& live,
                    const std::vector<const SimulatedEvent*>& events) {
    CategoryBytes shown{};
    shown.fill(-1);
    for (const SimulatedEvent* event : events) {
      const CategoryBytes& bytes = live.at(*event);
      if (bytes == shown) continue;
      shown = bytes;
      std::string args;
      for (int c = 0; c < kNumCategories; ++c) {
        if (!live.used(c)) continue;
        args += fmt::format(R"({}"{}":{})", args.empty() ? "" : ",",
                            category_name(static_cast<Category>(c)), bytes[static_cast<size_t>(c)]);
      }
      add(R"({{"ph":"C","name":"live bytes","pid":{},"ts":{},"args":{{{}}}}})", stage,
          microseconds(nanoseconds(event->begin)), args);
    }
  }

  std::span<const StepProgram> stages_;
  const SimulatedRun& run_;
  const TraceOptions& options_;
  bool joins_;
  std::map<int64_t, int64_t> sent_;  // when each message's send begins
  std::string out_;
};

}  // namespace

std::string trace_json(std::span<const StepProgram> stages, const SimulatedRun& run,
                       const TraceOptions& options) {
  PLIMSOLL_CHECK(run.stages.size() == stages.size() &&
                     (run.num_instructions == static_cast<int64_t>(run.events.size())),
                 "a run of {} stages, {} events of {} instructions, for {} programs",
                 run.stages.size(), run.events.size(), run.num_instructions, stages.size());
  return TraceWriter(stages, run, options).write();
}

}  // namespace plimsoll
