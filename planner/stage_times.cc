#include "planner/stage_times.h"

#include "costmodel/simulator.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace plimsoll {

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr size_t kReceives = kNumStreams;  // a lane of their own, see costmodel/rank_simulator.h
constexpr auto kMessages = static_cast<size_t>(Stream::kPipeline);

// One body, with the seconds of its instructions; receives take none.
class Body {
 public:
  Body(const StepProgram& program, const std::vector<Instruction>& body, const Cluster& cluster)
      : body_(body) {
    const RooflineTime op_time;
    const RingTime collective_time;
    for (const Instruction& instruction : body) {
      const std::optional<Collective> kind = find_collective(instruction.op);
      if (instruction.op == "receive") {
        seconds_.push_back(0);
      } else if (kind) {
        seconds_.push_back(collective_time.collective_seconds(
            *kind, collective_bytes(program, instruction),
            group_of(instruction, program.header.coordinates), cluster));
      } else {
        seconds_.push_back(
            op_time.op_seconds(instruction, cluster.device, float_type_of(program, instruction)));
      }
    }
  }

  // The last message of that kind; -1 when the body has none.
  [[nodiscard]] int find(const char* op, Pass pass) const {
    for (auto i = static_cast<int>(body_.size()); i-- > 0;) {
      const Instruction& instruction = body_[static_cast<size_t>(i)];
      if (instruction.op == op && instruction.pass == pass) return i;
    }
    return -1;
  }

  [[nodiscard]] double seconds_of(int i) const {
    return i < 0 ? 0 : seconds_[static_cast<size_t>(i)];
  }

  // Longest chains from the end of instruction `from`, or with -1 from the start of the body.
  struct Chains {
    std::vector<double> begin;  // of each instruction
    double end = 0;             // of the body: no stream waits for the pipeline's
  };
  [[nodiscard]] Chains chains(int from) const {
    Chains out;
    std::array<double, kNumStreams + 1> free_at;
    free_at.fill(from < 0 ? 0 : kNever);
    std::vector<double> done(body_.size(), kNever);
    for (size_t i = 0; i < body_.size(); ++i) {
      const Instruction& instruction = body_[i];
      const size_t lane =
          instruction.op == "receive" ? kReceives : static_cast<size_t>(instruction.stream);
      double begin = free_at[lane];
      for (const int wait : instruction.waits) {
        begin = std::max(begin, done[static_cast<size_t>(wait)]);
      }
      if (static_cast<int>(i) == from) begin = 0;
      out.begin.push_back(begin);
      done[i] = begin + seconds_[i];
      free_at[lane] = std::max(free_at[lane], done[i]);
    }
    for (size_t lane = 0; lane < free_at.size(); ++lane) {
      if (lane != kMessages && lane != kReceives) out.end = std::max(out.end, free_at[lane]);
    }
    return out;
  }

  // From the arrival of one message to the sending of another; 0 when it does not wait for it.
  static double path(const Chains& chains, int to) {
    return to < 0 ? 0 : std::max(0.0, chains.begin[static_cast<size_t>(to)]);
  }

 private:
  const std::vector<Instruction>& body_;
  std::vector<double> seconds_;
};

// What of a micro-batch a segment has; nothing before and after the micro-batches.
struct Parts {
  bool forward = false, backward = false, weights = false;
};

Parts parts_of(const Segment& segment, bool is_split) {
  Parts parts;
  const bool works = segment.name == "micro-batches" || segment.name.starts_with("warm-up") ||
                     segment.name.starts_with("steady") || segment.name.starts_with("cool-down");
  if (!works) return parts;
  for (const Instruction& instruction : segment.body) {
    if (instruction.pass == Pass::kForward) parts.forward = true;
    if (instruction.pass != Pass::kBackward) continue;
    // Of a split backward the first part has the messages.
    const bool message = instruction.op == "send" || instruction.op == "receive";
    parts.backward = parts.backward || !is_split || message;
    parts.weights = parts.weights || (is_split && instruction.op.ends_with(".backward_weight"));
  }
  return parts;
}

}  // namespace

StageTimes stage_times(const StepProgram& program, const Cluster& cluster, bool is_split) {
  StageTimes times{};
  bool scheduled = false;
  for (const Segment& segment : program.find_phase("step")->segments) {
    const Body body(program, segment.body, cluster);
    const Body::Chains all = body.chains(-1);
    const Parts parts = parts_of(segment, is_split);
    if (!parts.forward && !parts.backward && !parts.weights) {
      times[scheduled ? kEndSeconds : kBeginSeconds] +=
          all.end * static_cast<double>(segment.repeat);
      continue;
    }
    scheduled = true;
    const bool whole = parts.weights || !is_split;
    const int activation_in = body.find("receive", Pass::kForward);
    const int activation_out = body.find("send", Pass::kForward);
    const int gradient_in = body.find("receive", Pass::kBackward);
    const int gradient_out = body.find("send", Pass::kBackward);
    const Body::Chains from_activation = body.chains(activation_in);
    const Body::Chains from_gradient = body.chains(gradient_in);
    const auto set = [&](StageTime what, double seconds) { times[what] = seconds; };
    if (parts.forward && !parts.backward) {
      set(kForwardSeconds, all.end);
      set(kForwardPath, Body::path(from_activation, activation_out));
      set(kForwardRest, from_activation.end);
    } else if (parts.forward) {
      set(whole ? kSteadySeconds : kHeldSeconds, all.end);
      set(whole ? kTurnPath : kHeldTurnPath, Body::path(from_activation, gradient_out));
      set(whole ? kTurnRest : kHeldTurnRest, from_activation.end);
      set(whole ? kSteadyBackwardPath : kHeldBackwardPath, Body::path(from_gradient, gradient_out));
      set(whole ? kSteadyBackwardRest : kHeldBackwardRest, from_gradient.end);
      set(whole ? kSteadyLead : kHeldLead, Body::path(all, gradient_out));
    } else if (parts.backward) {
      set(whole ? kBackwardSeconds : kInputSeconds, all.end);
      set(whole ? kBackwardPath : kInputPath, Body::path(from_gradient, gradient_out));
      set(whole ? kBackwardRest : kInputRest, from_gradient.end);
      set(whole ? kBackwardLead : kInputLead, Body::path(all, gradient_out));
    } else {
      set(kWeightSeconds, all.end);
    }
    if (activation_out >= 0) set(kForwardMessage, body.seconds_of(activation_out));
    if (gradient_out >= 0) set(kBackwardMessage, body.seconds_of(gradient_out));
  }
  return times;
}

}  // namespace plimsoll
