#include "costmodel/stage_lanes.h"

namespace plimsoll {

StageLanes::StageLanes(const StageScript& script, const SimulateOptions& options)
    : script_(&script),
      send_lag_(options.send_lag < 0 ? kEnd : options.send_lag),
      done_(script.blocks.size(), 0) {
  for (int lane = 0; lane < kNumLanes; ++lane) {
    enter_next_segment(lane);
    if (ended(lane)) continue;
    used_.push_back(lane);
    const bool pipeline = lane == kReceiveLane || lane == kPipelineLane;
    if (!pipeline || !options.overlap_messages) joined_.push_back(lane);
  }
}

bool StageLanes::ready(int lane) const {
  const Cursor& cursor = at(lane);
  if (cursor.block == cursor.range.begin) {
    for (const int other : joined_) {
      if (at(other).global_iteration < cursor.global_iteration) return false;
    }
    // The pipeline stream is joined behind collectives, but not behind messages.
    const SegmentScript& segment = script_->segments[static_cast<size_t>(cursor.segment)];
    const int64_t met = segment.meets_stages && cursor.iteration > 0 ? cursor.global_iteration - 1
                                                                     : segment.met_before;
    if (at(kPipelineLane).global_iteration <= met) return false;
    if (send_lag_ >= 0 &&
        at(kPipelineLane).global_iteration < cursor.global_iteration - send_lag_) {
      return false;
    }
  }
  const Block& block = head(lane);
  for (int w = block.first_wait; w < block.last_wait; ++w) {
    const int awaited = script_->waits[static_cast<size_t>(w)];
    if (done_[static_cast<size_t>(awaited)] <= cursor.iteration) return false;
  }
  return true;
}

void StageLanes::finish_head(int lane) {
  Cursor& cursor = cursors_[static_cast<size_t>(lane)];
  done_[static_cast<size_t>(cursor.block)] = cursor.iteration + 1;
  if (++cursor.block < cursor.range.end) return;
  cursor.block = cursor.range.begin;
  ++cursor.iteration;
  ++cursor.global_iteration;
  if (cursor.iteration == script_->segments[static_cast<size_t>(cursor.segment)].repeat) {
    enter_next_segment(lane);
  }
}

void StageLanes::enter_next_segment(int lane) {
  Cursor& cursor = cursors_[static_cast<size_t>(lane)];
  const std::vector<SegmentScript>& segments = script_->segments;
  for (++cursor.segment; cursor.segment < static_cast<int>(segments.size()); ++cursor.segment) {
    const SegmentScript& segment = segments[static_cast<size_t>(cursor.segment)];
    cursor.range = segment.lanes[static_cast<size_t>(lane)];
    if (segment.repeat == 0 || cursor.range.begin == cursor.range.end) continue;
    cursor.iteration = 0;
    cursor.global_iteration = segment.first_iteration;
    cursor.block = cursor.range.begin;
    return;
  }
  cursor.global_iteration = kEnd;
}

}  // namespace plimsoll
