#include "planner/schedule.h"

#include "base/error.h"

#include <algorithm>

namespace plimsoll {

namespace {

using Unit = std::vector<ScheduleSlot>;
using Units = std::vector<Unit>;

Units gpipe_units(int64_t num_microbatches) {
  Units units;
  for (const SlotKind kind : {SlotKind::kForward, SlotKind::kBackward}) {
    for (int64_t i = 0; i < num_microbatches; ++i) units.push_back({{kind, i, 0}});
  }
  return units;
}

Units one_forward_one_backward_units(int stage, int num_stages, int64_t num_microbatches) {
  const auto ahead = std::min<int64_t>(num_microbatches, num_stages - 1 - stage);
  Units units;
  for (int64_t i = 0; i < ahead; ++i) units.push_back({{SlotKind::kForward, i, 0}});
  for (int64_t i = 0; i < num_microbatches; ++i) {
    Unit& unit = units.emplace_back();
    if (i + ahead < num_microbatches) unit.push_back({SlotKind::kForward, i + ahead, 0});
    unit.push_back({SlotKind::kBackward, i, 0});
  }
  return units;
}

// Forward k of a stage works for this chunk and micro-batch: p micro-batches of the first chunk, as
// many of the second, …, then the next p micro-batches. Backward k is the same with the chunks in
// reverse.
ScheduleSlot interleaved_slot(SlotKind kind, int64_t k, int num_stages, int num_chunks) {
  const int64_t group = int64_t{num_stages} * num_chunks;
  const auto chunk = static_cast<int>(k % group / num_stages);
  return {kind, k / group * num_stages + k % num_stages,
          kind == SlotKind::kForward ? chunk : num_chunks - 1 - chunk};
}

Units interleaved_units(int stage, int num_stages, int64_t num_microbatches, int num_chunks) {
  const int64_t total = num_microbatches * num_chunks;
  int64_t ahead = 2 * (num_stages - 1 - stage) + int64_t{num_chunks - 1} * num_stages;
  // With one group of micro-batches all forwards come first, as in the paper's implementation.
  ahead = num_microbatches == num_stages ? total : std::min(total, ahead);
  const auto slot = [&](SlotKind kind, int64_t k) {
    return interleaved_slot(kind, k, num_stages, num_chunks);
  };
  Units units;
  for (int64_t k = 0; k < ahead; ++k) units.push_back({slot(SlotKind::kForward, k)});
  for (int64_t k = 0; k < total; ++k) {
    Unit& unit = units.emplace_back();
    if (k + ahead < total) unit.push_back(slot(SlotKind::kForward, k + ahead));
    unit.push_back(slot(SlotKind::kBackward, k));
  }
  return units;
}

// `level` 1 is H1, 2 is H2: level (p - 1 - r) forwards ahead, and the weights' gradients level r
// micro-batches behind, so that every stage holds level (p - 1) + 1 activations.
Units zero_bubble_units(int level, int stage, int num_stages, int64_t num_microbatches) {
  const auto ahead = std::min<int64_t>(num_microbatches, level * (num_stages - 1 - stage));
  const auto behind = std::min<int64_t>(num_microbatches, level * stage);
  Units units;
  for (int64_t i = 0; i < ahead; ++i) units.push_back({{SlotKind::kForward, i, 0}});
  for (int64_t i = 0; i < num_microbatches; ++i) {
    Unit& unit = units.emplace_back();
    if (i + ahead < num_microbatches) unit.push_back({SlotKind::kForward, i + ahead, 0});
    unit.push_back({SlotKind::kBackwardInput, i, 0});
    if (i >= behind) unit.push_back({SlotKind::kBackwardWeight, i - behind, 0});
  }
  for (int64_t i = num_microbatches - behind; i < num_microbatches; ++i) {
    units.push_back({{SlotKind::kBackwardWeight, i, 0}});
  }
  return units;
}

}  // namespace

std::string_view schedule_kind_name(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kGPipe:
      return "gpipe";
    case ScheduleKind::k1F1B:
      return "1f1b";
    case ScheduleKind::kInterleaved:
      return "interleaved";
    case ScheduleKind::kZeroBubbleH1:
      return "zb-h1";
    case ScheduleKind::kZeroBubbleH2:
      return "zb-h2";
  }
  return "";
}

std::optional<ScheduleKind> parse_schedule_kind(std::string_view name) {
  for (int i = 0; i < kNumScheduleKinds; ++i) {
    const auto kind = static_cast<ScheduleKind>(i);
    if (schedule_kind_name(kind) == name) return kind;
  }
  return std::nullopt;
}

bool splits_backward(ScheduleKind kind) {
  return kind == ScheduleKind::kZeroBubbleH1 || kind == ScheduleKind::kZeroBubbleH2;
}

std::vector<std::vector<ScheduleSlot>> schedule_units(ScheduleKind kind, int stage, int num_stages,
                                                      int64_t num_microbatches, int num_chunks) {
  PLIMSOLL_CHECK(stage >= 0 && stage < num_stages && num_microbatches >= 0 && num_chunks >= 1,
                 "stage {} of {}, {} micro-batches, {} chunks", stage, num_stages, num_microbatches,
                 num_chunks);
  if (num_chunks > 1 && kind != ScheduleKind::kInterleaved) {
    throw bad_input(fmt::format("schedule {} has one chunk a stage, not {}",
                                schedule_kind_name(kind), num_chunks),
                    "--interleave goes with --schedule interleaved");
  }
  switch (kind) {
    case ScheduleKind::kGPipe:
      return gpipe_units(num_microbatches);
    case ScheduleKind::kInterleaved:
      if (num_microbatches % num_stages != 0) {
        throw bad_input(
            fmt::format("an interleaved schedule needs a multiple of {} micro-batches, not {}",
                        num_stages, num_microbatches),
            "choose another micro-batch or number of stages, or --schedule 1f1b");
      }
      if (num_chunks > 1) {
        return interleaved_units(stage, num_stages, num_microbatches, num_chunks);
      }
      [[fallthrough]];  // with one chunk there is nothing to interleave
    case ScheduleKind::k1F1B:
      return one_forward_one_backward_units(stage, num_stages, num_microbatches);
    case ScheduleKind::kZeroBubbleH1:
      return zero_bubble_units(1, stage, num_stages, num_microbatches);
    case ScheduleKind::kZeroBubbleH2:
      return zero_bubble_units(2, stage, num_stages, num_microbatches);
  }
  return {};
}

std::vector<ScheduleSlot> schedule_order(ScheduleKind kind, int stage, int num_stages,
                                         int64_t num_microbatches, int num_chunks) {
  std::vector<ScheduleSlot> order;
  for (const auto& unit : schedule_units(kind, stage, num_stages, num_microbatches, num_chunks)) {
    order.insert(order.end(), unit.begin(), unit.end());
  }
  return order;
}

std::optional<SlotInput> schedule_input(const ScheduleSlot& slot, int stage, int num_stages,
                                        int num_chunks) {
  ScheduleSlot needed = slot;
  switch (slot.kind) {
    case SlotKind::kForward:
      if (stage > 0) return SlotInput{stage - 1, needed};
      if (slot.chunk == 0) return std::nullopt;
      --needed.chunk;
      return SlotInput{num_stages - 1, needed};
    case SlotKind::kBackward:
    case SlotKind::kBackwardInput:
      if (stage < num_stages - 1) return SlotInput{stage + 1, needed};
      if (slot.chunk == num_chunks - 1) return std::nullopt;
      ++needed.chunk;
      return SlotInput{0, needed};
    case SlotKind::kBackwardWeight:
      return std::nullopt;
  }
  return std::nullopt;
}

int64_t peak_in_flight(const std::vector<ScheduleSlot>& order) {
  int64_t held = 0;
  int64_t peak = 0;
  for (const ScheduleSlot& slot : order) {
    switch (slot.kind) {
      case SlotKind::kForward:
        peak = std::max(peak, ++held);
        break;
      case SlotKind::kBackward:
      case SlotKind::kBackwardWeight:
        --held;
        break;
      case SlotKind::kBackwardInput:
        break;
    }
  }
  return peak;
}

}  // namespace plimsoll
