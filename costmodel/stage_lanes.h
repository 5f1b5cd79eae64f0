// How far each lane of a stage has come, and whether its next block may start.
#pragma once

#include "costmodel/stage_script.h"

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

namespace plimsoll {

class StageLanes {
 public:
  // Uses overlap_messages and send_lag of the options.
  StageLanes(const StageScript& script, const SimulateOptions& options);

  // Lanes with anything to run, ascending.
  [[nodiscard]] const std::vector<int>& used() const { return used_; }
  [[nodiscard]] bool ended(int lane) const { return at(lane).global_iteration == kEnd; }

  // The block that the lane runs or will run next. Precondition: it has not ended.
  [[nodiscard]] const Block& head(int lane) const {
    return script_->blocks[static_cast<size_t>(at(lane).block)];
  }
  [[nodiscard]] int block(int lane) const { return at(lane).block; }
  [[nodiscard]] int segment(int lane) const { return at(lane).segment; }
  [[nodiscard]] int64_t iteration(int lane) const { return at(lane).iteration; }
  [[nodiscard]] int64_t global_iteration(int lane) const { return at(lane).global_iteration; }

  // The streams are joined as far as the head needs, and what it waits for is done.
  [[nodiscard]] bool ready(int lane) const;
  // The head is done: the lane moves to the next block.
  void finish_head(int lane);

 private:
  static constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  struct Cursor {
    int segment = -1;
    int block = 0;
    LaneRange range;                  // of the segment
    int64_t iteration = 0;            // of the segment
    int64_t global_iteration = kEnd;  // over all segments
  };

  [[nodiscard]] const Cursor& at(int lane) const { return cursors_[static_cast<size_t>(lane)]; }
  void enter_next_segment(int lane);

  const StageScript* script_;
  int64_t send_lag_;  // kEnd: nothing waits for sends
  std::array<Cursor, kNumLanes> cursors_;
  std::vector<int64_t> done_;  // of each block: iterations of its segment that it has done
  std::vector<int> used_;
  std::vector<int> joined_;  // those that the next iteration waits for
};

}  // namespace plimsoll
