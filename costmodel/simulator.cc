#include "costmodel/simulator.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>

namespace plimsoll {

namespace {

struct Span {
  double begin = 0;
  double end = 0;
};

// Seconds covered by collectives but by no computation, within one body.
double exposed(std::vector<Span> computing, std::vector<Span> communicating) {
  const auto merge = [](std::vector<Span>& spans) {
    std::sort(spans.begin(), spans.end(),
              [](const Span& a, const Span& b) { return a.begin < b.begin; });
    std::vector<Span> merged;
    for (const Span& span : spans) {
      if (merged.empty() || span.begin > merged.back().end) {
        merged.push_back(span);
      } else {
        merged.back().end = std::max(merged.back().end, span.end);
      }
    }
    spans.swap(merged);
  };
  merge(computing);
  merge(communicating);
  double total = 0;
  size_t from = 0;
  for (const Span& span : communicating) {
    total += span.end - span.begin;
    while (from < computing.size() && computing[from].end <= span.begin) ++from;
    for (size_t i = from; i < computing.size() && computing[i].begin < span.end; ++i) {
      total -= std::min(span.end, computing[i].end) - std::max(span.begin, computing[i].begin);
    }
  }
  return std::max(total, 0.0);
}

class BodyTimer {
 public:
  BodyTimer(const StepProgram& program, const Cluster& cluster, const OpTimeModel& op_time,
            const CollectiveTimeModel& collective_time)
      : program_(program),
        cluster_(cluster),
        op_time_(op_time),
        collective_time_(collective_time) {}

  // Adds `segment` to `step`.
  void add(const Segment& segment, SimulatedStep& step) const {
    const auto repeat = static_cast<double>(segment.repeat);
    std::array<double, kNumStreams> free_at{};
    std::vector<double> done(segment.body.size());
    std::vector<Span> computing;
    std::vector<Span> communicating;
    for (size_t i = 0; i < segment.body.size(); ++i) {
      const Instruction& instruction = segment.body[i];
      double& stream_free_at = free_at[static_cast<size_t>(instruction.stream)];
      Span span{stream_free_at, 0};
      for (const int wait : instruction.waits) {
        PLIMSOLL_CHECK(wait >= 0 && static_cast<size_t>(wait) < i,
                       "instruction {} of segment {} waits for {}", i, segment.name, wait);
        span.begin = std::max(span.begin, done[static_cast<size_t>(wait)]);
      }
      const std::optional<Collective> kind = find_collective(instruction.op);
      const double seconds = kind ? collective_seconds(instruction, *kind)
                                  : op_time_.op_seconds(instruction, cluster_.device,
                                                        float_type_of(program_, instruction));
      span.end = span.begin + seconds;
      stream_free_at = done[i] = span.end;
      (kind ? communicating : computing).push_back(span);
      (kind ? step.communication_seconds : step.compute_seconds) += repeat * seconds;
      step.pass_seconds[static_cast<size_t>(instruction.pass)] += repeat * seconds;
    }
    const double body = *std::max_element(free_at.begin(), free_at.end());
    step.segments.push_back({segment.name, segment.repeat, body});
    step.step_seconds += repeat * body;
    step.exposed_seconds += repeat * exposed(std::move(computing), std::move(communicating));
  }

 private:
  double collective_seconds(const Instruction& instruction, Collective kind) const {
    return collective_time_.collective_seconds(kind, collective_bytes(program_, instruction),
                                               group_of(instruction, program_.header.coordinates),
                                               cluster_);
  }

  const StepProgram& program_;
  const Cluster& cluster_;
  const OpTimeModel& op_time_;
  const CollectiveTimeModel& collective_time_;
};

}  // namespace

double collective_bytes(const StepProgram& program, const Instruction& instruction) {
  const auto sum = [&](const std::vector<int>& operands) {
    double bytes = 0;
    for (const int operand : operands) {
      if (operand == kNoBuffer) continue;
      bytes += static_cast<double>(program.buffers[static_cast<size_t>(operand)].bytes());
    }
    return bytes;
  };
  // Buffers have the declared bound of rows; what balanced routing moves is read and written once.
  if (instruction.op == "all_to_all") return instruction.bytes_moved / 2;
  const double bytes = std::max(sum(instruction.inputs), sum(instruction.outputs));
  // A part of a tensor that is reduced where it lies.
  const auto part = static_cast<double>(instruction.attributes.get_int("shards", 1));
  if (part <= 1 || instruction.outputs.size() != 1) return bytes;
  const Buffer& buffer = program.buffers[static_cast<size_t>(instruction.outputs.front())];
  const int64_t elements = instruction.attributes.get_int("elements", 0);
  const bool is_whole = num_elements(buffer.shape) == elements;
  return is_whole ? bytes * std::ceil(static_cast<double>(elements) / part) /
                        static_cast<double>(elements)
                  : bytes;
}

CollectiveGroup group_of(const Instruction& instruction, const Coordinates& at) {
  const std::string group = instruction.attributes.get_string("group", "dp");
  if (instruction.op == "send" || instruction.op == "receive" || group == "embedding") {
    const int64_t stage_ranks = int64_t{at.tp_size} * at.cp_size * at.ep_size * at.dp_size;
    const int64_t stages = at.pp_size;
    if (stages == 1) return {1, stage_ranks};
    const std::string peer = instruction.attributes.get_string("peer", "");
    const bool around = group == "embedding" || (peer == "next" && at.pp == stages - 1) ||
                        (peer == "previous" && at.pp == 0);
    return {2, around ? (stages - 1) * stage_ranks : stage_ranks};
  }
  if (group == "data") return {int64_t{at.cp_size} * at.ep_size * at.dp_size, at.tp_size};
  if (group == "shard" || group == "replica") {
    const int64_t ranks = int64_t{at.cp_size} * at.ep_size * at.dp_size;
    const int64_t inside = instruction.attributes.get_int("shard_ranks", 0);
    if (inside < 1 || ranks % inside != 0) {
      throw bad_input(fmt::format("{}: {} shard ranks do not divide a group of {}", instruction.op,
                                  inside, ranks));
    }
    if (group == "shard") return {inside, at.tp_size};
    return {ranks / inside, at.tp_size * inside};
  }
  int64_t stride = 1;
  if (group == "tp") return {at.tp_size, stride};
  stride *= at.tp_size;
  if (group == "cp") return {at.cp_size, stride};
  stride *= at.cp_size;
  if (group == "ep") return {at.ep_size, stride};
  stride *= at.ep_size;
  if (group == "dp") return {at.dp_size, stride};
  stride *= at.dp_size;
  if (group == "pp") return {at.pp_size, stride};
  throw bad_input(fmt::format("{}: unknown group '{}'", instruction.op, group),
                  "groups are tp, cp, ep, dp, data, shard, replica, pp and embedding");
}

SimulatedStep simulate(const StepProgram& program, const Cluster& cluster,
                       const OpTimeModel& op_time, const CollectiveTimeModel& collective_time,
                       std::string_view phase) {
  const Phase* found = program.find_phase(phase);
  if (found == nullptr) throw bad_input(fmt::format("the program has no phase '{}'", phase));
  SimulatedStep step;
  const BodyTimer timer(program, cluster, op_time, collective_time);
  for (const Segment& segment : found->segments) timer.add(segment, step);
  return step;
}

SimulatedStep simulate(const StepProgram& program, const Cluster& cluster) {
  return simulate(program, cluster, RooflineTime(), RingTime());
}

}  // namespace plimsoll
