// Runs the messages of a pipeline's programs as the executor does, without the computation: list
// order on every stage, a message taken from the sender's bytes when its receive comes to it.
#pragma once

#include "program/order.h"
#include "program/program.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace plimsoll::testing {

class Rendezvous {
 public:
  // Of placed programs, one a stage. Returns where the stages wait for one another, or "".
  static std::string stuck(const std::vector<StepProgram>& stages, const std::string& phase) {
    Rendezvous run(stages, phase);
    while (run.advance()) {
    }
    std::string text;
    for (const Stage& stage : run.stages_) {
      if (stage.at < stage.list.size()) text += stage.list[stage.at].text + "\n";
    }
    return text;
  }

 private:
  struct Bytes {
    int64_t begin = 0, end = 0;
    [[nodiscard]] bool overlaps(const Bytes& other) const {
      return begin < other.end && other.begin < end;
    }
  };
  struct Step {
    enum class Kind : uint8_t { kSend, kReceive, kFinish, kFinishAll } kind;
    std::tuple<int, int, int64_t> channel;  // from, to, tag
    Bytes bytes;
    size_t send = 0;  // to finish: its index in the body
    std::string text;
  };
  struct UnderWay {
    Bytes bytes;
    size_t send = 0;
    bool taken = false;
  };
  struct Stage {
    std::vector<Step> list;
    size_t at = 0;
    std::vector<UnderWay*> sent;  // of the iteration
  };

  Rendezvous(const std::vector<StepProgram>& stages, const std::string& phase) {
    for (const StepProgram& program : stages) {
      Stage& stage = stages_.emplace_back();
      for (const Segment& segment : program.find_phase(phase)->segments) {
        const std::vector<int64_t> done_at = sends_done_at(segment.body);
        for (int64_t i = 0; i < segment.repeat; ++i) {
          for (size_t k = 0; k < segment.body.size(); ++k) {
            add(program, segment, done_at, i, k, static_cast<int>(stages.size()), stage);
          }
          stage.list.push_back({Step::Kind::kFinishAll, {}, {}, 0, place(program, segment, i, -1)});
        }
      }
    }
  }

  static std::string place(const StepProgram& program, const Segment& segment, int64_t i,
                           int64_t k) {
    return fmt::format("stage {}, segment '{}', iteration {}, instruction {}",
                       program.header.coordinates.pp, segment.name, i, k);
  }

  static void add(const StepProgram& program, const Segment& segment,
                  const std::vector<int64_t>& done_at, int64_t i, size_t k, int p, Stage& stage) {
    for (size_t send = 0; send < k; ++send) {
      if (done_at[send] != static_cast<int64_t>(k)) continue;
      stage.list.push_back({Step::Kind::kFinish, {}, {}, send,
                            place(program, segment, i, static_cast<int64_t>(k)) + " finishes"});
    }
    const Instruction& one = segment.body[k];
    const bool send = one.op == "send";
    if (!send && one.op != "receive") return;
    const int at = program.header.coordinates.pp;
    const int other = (at + (one.attributes.get_string("peer") == "next" ? 1 : p - 1)) % p;
    const auto b = static_cast<size_t>(send ? one.inputs[0] : one.outputs[0]);
    const Buffer& buffer = program.buffers[b];
    const int64_t microbatch =
        segment.first_microbatch + i * segment.microbatch_stride + one.microbatch;
    const int64_t offset = buffer.offsets[static_cast<size_t>(microbatch % buffer.copies)];
    stage.list.push_back({send ? Step::Kind::kSend : Step::Kind::kReceive,
                          {send ? at : other, send ? other : at, one.attributes.get_int("tag", 0)},
                          {offset, offset + buffer.bytes()},
                          k,
                          place(program, segment, i, static_cast<int64_t>(k)) + " " + one.op + " " +
                              buffer.name});
  }

  // Runs every stage as far as it goes; false when none moved.
  bool advance() {
    bool moved = false;
    for (Stage& stage : stages_) {
      while (stage.at < stage.list.size() && run(stage, stage.list[stage.at])) {
        ++stage.at;
        moved = true;
      }
    }
    return moved;
  }

  bool run(Stage& stage, const Step& step) {
    switch (step.kind) {
      case Step::Kind::kSend:
        messages_.push_back(std::make_unique<UnderWay>(UnderWay{step.bytes, step.send, false}));
        stage.sent.push_back(messages_.back().get());
        inbox_[step.channel].push_back(messages_.back().get());
        return true;
      case Step::Kind::kReceive: {
        for (const UnderWay* one : stage.sent) {
          if (!one->taken && one->bytes.overlaps(step.bytes)) return false;
        }
        std::vector<UnderWay*>& inbox = inbox_[step.channel];
        if (inbox.empty()) return false;
        inbox.front()->taken = true;
        inbox.erase(inbox.begin());
        return true;
      }
      case Step::Kind::kFinish:
        for (const UnderWay* one : stage.sent) {
          if (!one->taken && one->send == step.send) return false;
        }
        return true;
      case Step::Kind::kFinishAll:
        for (const UnderWay* one : stage.sent) {
          if (!one->taken) return false;
        }
        stage.sent.clear();
        return true;
    }
    return false;
  }

  std::vector<Stage> stages_;
  std::vector<std::unique_ptr<UnderWay>> messages_;
  std::map<std::tuple<int, int, int64_t>, std::vector<UnderWay*>> inbox_;
};

}  // namespace plimsoll::testing
