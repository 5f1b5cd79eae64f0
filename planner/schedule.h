// Pipeline schedules: the order in which each stage works through its micro-batches.
//
// An order is a list of slots that the stage's compute stream runs one after the other. What a slot
// needs from other stages (schedule_input) follows from the kind of slot alone, so lowering, the
// simulator's tests and the reports agree on it. With p stages, m micro-batches and stage r:
//     gpipe        all forwards, then all backwards
//     1f1b         p - 1 - r forwards ahead, then one forward and one backward in turn
//     interleaved  1f1b over v chunks a stage (Narayanan et al. 2021, section 2.2); m a multiple
//                  of p; stage r has the model's parts r, p + r, 2 p + r, …
//     zb-h1, zb-h2 backward split in two: the input's gradient at once, the weights' later (Qi et
//                  al. 2023, "Zero Bubble Pipeline Parallelism", sections 2.2 and 2.3)
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace plimsoll {

enum class ScheduleKind : uint8_t { kGPipe, k1F1B, kInterleaved, kZeroBubbleH1, kZeroBubbleH2 };
inline constexpr int kNumScheduleKinds = 5;
// "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2"
[[nodiscard]] std::string_view schedule_kind_name(ScheduleKind kind);
[[nodiscard]] std::optional<ScheduleKind> parse_schedule_kind(std::string_view name);
// True for the schedules with kBackwardInput and kBackwardWeight slots in place of kBackward.
[[nodiscard]] bool splits_backward(ScheduleKind kind);

enum class SlotKind : uint8_t { kForward, kBackward, kBackwardInput, kBackwardWeight };

struct ScheduleSlot {
  SlotKind kind = SlotKind::kForward;
  int64_t microbatch = 0;
  int chunk = 0;  // of the stage's own, 0 but in interleaved schedules
  friend bool operator==(const ScheduleSlot&, const ScheduleSlot&) = default;
};

// The order of stage `stage` of `num_stages`. Each micro-batch of each chunk has one forward and
// one backward (or one of each half), forwards and backwards of a chunk in ascending order.
// Throws Error (exit 2) when num_chunks > 1 for another schedule than kInterleaved, or when the
// micro-batches of kInterleaved are no multiple of the stages.
[[nodiscard]] std::vector<ScheduleSlot> schedule_order(ScheduleKind kind, int stage, int num_stages,
                                                       int64_t num_microbatches,
                                                       int num_chunks = 1);

// The same order in units, the turns that repeat: a forward alone, a forward with a backward, a
// backward alone.
[[nodiscard]] std::vector<std::vector<ScheduleSlot>> schedule_units(ScheduleKind kind, int stage,
                                                                    int num_stages,
                                                                    int64_t num_microbatches,
                                                                    int num_chunks = 1);

// The slot of another stage whose message `slot` needs, empty when it needs none.
struct SlotInput {
  int stage = 0;
  ScheduleSlot slot;
};
[[nodiscard]] std::optional<SlotInput> schedule_input(const ScheduleSlot& slot, int stage,
                                                      int num_stages, int num_chunks);

// The most activations (micro-batches of a chunk) that the order holds at once: each from its
// forward to its backward, or to the weights' half of it. A maximum over slots as they run. With
// m >= 2 p - 1 (and m > p for interleaved) it is
//     gpipe m; 1f1b p - r; interleaved min(2 (p - 1 - r) + (v - 1) p + 1, m v); zb-h1 p; zb-h2 2p-1
[[nodiscard]] int64_t peak_in_flight(const std::vector<ScheduleSlot>& order);

}  // namespace plimsoll
