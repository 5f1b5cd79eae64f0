// Synthetic programs of pipeline stages: one instruction a slot of a schedule, and its messages.
#pragma once

#include "planner/schedule.h"
#include "program/builder.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll {

// Seconds of a slot at a stage, as FLOPs (tests/costmodel/unit_time.h).
using SlotSeconds = std::function<double(int stage, SlotKind kind)>;

struct Pipeline {
  ScheduleKind schedule = ScheduleKind::k1F1B;
  int stages = 4;
  int64_t microbatches = 8;
  int chunks = 1;
  SlotSeconds seconds;
  int64_t message_bytes = 0;
  int instructions = 1;  // a slot's work is split into as many, of equal time
};

// The same times at every stage; a whole backward takes both halves.
inline SlotSeconds equal_stages(double forward, double backward_input, double backward_weight = 0) {
  return [=](int, SlotKind kind) {
    switch (kind) {
      case SlotKind::kForward:
        return forward;
      case SlotKind::kBackward:
        return backward_input + backward_weight;
      case SlotKind::kBackwardInput:
        return backward_input;
      case SlotKind::kBackwardWeight:
        return backward_weight;
    }
    return 0.0;
  };
}

class PipelineBuilder {
 public:
  PipelineBuilder(const Pipeline& pipeline, int stage) : pipeline_(pipeline), stage_(stage) {
    builder_.header().coordinates.pp = stage;
    builder_.header().coordinates.pp_size = pipeline.stages;
    message_ = builder_.add_buffer("message", Category::kCommunication, DType::kU8,
                                   {pipeline.message_bytes});
    builder_.phase("step");
  }

  void segment(const std::string& name, int64_t repeat = 1, int64_t first = 0) {
    builder_.segment(name, repeat, first);
  }

  // Receive, compute and send, where the slot has these.
  void slot(const ScheduleSlot& slot) {
    std::vector<int> waits;
    if (const auto input = schedule_input(slot, stage_, pipeline_.stages, pipeline_.chunks)) {
      message("receive", slot, !forward(slot), slot.chunk);
      waits = {builder_.last()};
    }
    for (int i = 0; i < pipeline_.instructions; ++i) {
      Instruction& work = builder_.emit("linear", {}, {});
      work.flops = pipeline_.seconds(stage_, slot.kind) / pipeline_.instructions;
      work.pass = forward(slot) ? Pass::kForward : Pass::kBackward;
      work.microbatch = static_cast<int>(slot.microbatch);
      work.waits = std::exchange(waits, {});
    }
    // Who needs this slot is the neighbour whose input it is.
    const int other = (stage_ + (forward(slot) ? 1 : pipeline_.stages - 1)) % pipeline_.stages;
    for (int chunk = 0; chunk < pipeline_.chunks; ++chunk) {
      ScheduleSlot there = slot;
      there.chunk = chunk;
      const auto input = schedule_input(there, other, pipeline_.stages, pipeline_.chunks);
      if (!input || input->stage != stage_ || !(input->slot == slot)) continue;
      const int computed = builder_.last();
      message("send", slot, forward(slot), chunk).waits = {computed};
    }
  }

  StepProgram build() && { return std::move(builder_).build(); }

 private:
  static bool forward(const ScheduleSlot& slot) { return slot.kind == SlotKind::kForward; }

  // Tags say the direction and the receiver's chunk.
  Instruction& message(const char* op, const ScheduleSlot& slot, bool next, int chunk) {
    const bool send = std::string(op) == "send";
    Instruction& instruction =
        builder_.emit(op, send ? std::vector<int>{message_} : std::vector<int>{},
                      send ? std::vector<int>{} : std::vector<int>{message_},
                      {{"peer", std::string(next ? "next" : "previous")},
                       {"tag", (forward(slot) ? "f" : "b") + std::to_string(chunk)}});
    instruction.stream = Stream::kPipeline;
    instruction.pass = forward(slot) ? Pass::kForward : Pass::kBackward;
    instruction.microbatch = static_cast<int>(slot.microbatch);
    return instruction;
  }

  const Pipeline& pipeline_;
  int stage_;
  int message_ = 0;
  ProgramBuilder builder_;
};

// Every slot written out in one segment.
inline std::vector<StepProgram> pipeline_programs(const Pipeline& pipeline) {
  std::vector<StepProgram> programs;
  for (int s = 0; s < pipeline.stages; ++s) {
    PipelineBuilder builder(pipeline, s);
    builder.segment("all");
    for (const ScheduleSlot& slot : schedule_order(pipeline.schedule, s, pipeline.stages,
                                                   pipeline.microbatches, pipeline.chunks)) {
      builder.slot(slot);
    }
    programs.push_back(std::move(builder).build());
  }
  return programs;
}

// 1F1B folded: warm-up, steady and cool-down.
inline std::vector<StepProgram> folded_1f1b_programs(const Pipeline& pipeline) {
  std::vector<StepProgram> programs;
  for (int s = 0; s < pipeline.stages; ++s) {
    const int64_t ahead = std::min<int64_t>(pipeline.microbatches, pipeline.stages - 1 - s);
    PipelineBuilder builder(pipeline, s);
    builder.segment("warm-up", ahead);
    builder.slot({SlotKind::kForward, 0, 0});
    builder.segment("steady", pipeline.microbatches - ahead);
    builder.slot({SlotKind::kForward, ahead, 0});
    builder.slot({SlotKind::kBackward, 0, 0});
    builder.segment("cool-down", ahead, pipeline.microbatches - ahead);
    builder.slot({SlotKind::kBackward, 0, 0});
    programs.push_back(std::move(builder).build());
  }
  return programs;
}

}  // namespace plimsoll
