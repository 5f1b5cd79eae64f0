#include "planner/schedule_fold.h"

#include "base/error.h"

#include <algorithm>
#include <map>

namespace plimsoll {

namespace {

using Unit = std::vector<ScheduleSlot>;

bool is_shifted(const Unit& unit, const Unit& by, int64_t microbatches) {
  return std::equal(unit.begin(), unit.end(), by.begin(), by.end(),
                    [&](const ScheduleSlot& a, const ScheduleSlot& b) {
                      return a.kind == b.kind && a.chunk == b.chunk &&
                             a.microbatch == b.microbatch + microbatches;
                    });
}

// How often the `size` units from `from` on follow one another, each time `stride` micro-batches
// later.
int64_t count_repeats(const std::vector<Unit>& units, size_t from, size_t size, int64_t stride) {
  int64_t repeat = 1;
  for (size_t next = from + size; next + size <= units.size(); next += size, ++repeat) {
    for (size_t i = 0; i < size; ++i) {
      if (!is_shifted(units[next + i], units[next + i - size], stride)) return repeat;
    }
  }
  return repeat;
}

bool is_forward(const ScheduleSlot& slot) { return slot.kind == SlotKind::kForward; }

std::string name_of(const std::vector<ScheduleSlot>& slots) {
  if (std::all_of(slots.begin(), slots.end(), is_forward)) return "warm-up";
  return std::any_of(slots.begin(), slots.end(), is_forward) ? "steady" : "cool-down";
}

}  // namespace

std::vector<ScheduleRun> fold_schedule(ScheduleKind kind, int stage, int num_stages,
                                       int64_t num_microbatches, int num_chunks) {
  const std::vector<Unit> units =
      schedule_units(kind, stage, num_stages, num_microbatches, num_chunks);
  const size_t round = num_chunks == 1 ? 1 : static_cast<size_t>(int64_t{num_stages} * num_chunks);
  std::vector<ScheduleRun> runs;
  std::map<std::string, int> named;
  for (size_t at = 0; at < units.size();) {
    ScheduleRun run;
    size_t size = round;
    run.stride = num_chunks == 1 ? 1 : num_stages;
    run.repeat = count_repeats(units, at, size, run.stride);
    if (run.repeat == 1) {
      size = 1;
      run.stride = 1;
      run.repeat = count_repeats(units, at, size, run.stride);
    }
    for (size_t i = 0; i < size; ++i) {
      run.slots.insert(run.slots.end(), units[at + i].begin(), units[at + i].end());
    }
    run.first_microbatch = std::min_element(run.slots.begin(), run.slots.end(),
                                            [](const ScheduleSlot& a, const ScheduleSlot& b) {
                                              return a.microbatch < b.microbatch;
                                            })
                               ->microbatch;
    for (ScheduleSlot& slot : run.slots) slot.microbatch -= run.first_microbatch;
    run.name = name_of(run.slots);
    if (const int number = ++named[run.name]; number > 1) {
      run.name = fmt::format("{} {}", run.name, number);
    }
    at += size * static_cast<size_t>(run.repeat);
    runs.push_back(std::move(run));
  }
  return runs;
}

ScheduleRun fold_forwards(int num_stages, int64_t num_microbatches, int num_chunks) {
  if (num_chunks == 1) {
    return {"micro-batches", num_microbatches, 0, 1, {{SlotKind::kForward, 0, 0}}};
  }
  PLIMSOLL_CHECK(num_microbatches % num_stages == 0, "{} micro-batches over {} stages",
                 num_microbatches, num_stages);
  ScheduleRun run{"micro-batches", num_microbatches / num_stages, 0, num_stages, {}};
  for (int chunk = 0; chunk < num_chunks; ++chunk) {
    for (int i = 0; i < num_stages; ++i) run.slots.push_back({SlotKind::kForward, i, chunk});
  }
  return run;
}

int64_t window_in_flight(const std::vector<ScheduleRun>& runs, int chunk) {
  int64_t begun = 0;
  int64_t ended = 0;
  int64_t most = 0;
  for (const ScheduleRun& run : runs) {
    for (int64_t i = 0; i < run.repeat; ++i) {
      for (const ScheduleSlot& slot : run.slots) {
        if (slot.chunk != chunk || slot.kind == SlotKind::kBackwardInput) continue;
        ++(is_forward(slot) ? begun : ended);
        most = std::max(most, begun - ended);
      }
    }
  }
  return most;
}

}  // namespace plimsoll
