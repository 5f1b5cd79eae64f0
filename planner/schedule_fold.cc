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

// A run of `repeat` times the `size` units from `at` on.
ScheduleRun make_run(const std::vector<Unit>& units, size_t at, size_t size, int64_t repeat,
                     int64_t stride) {
  ScheduleRun run;
  run.repeat = repeat;
  run.stride = stride;
  for (size_t i = 0; i < size; ++i) {
    run.slots.insert(run.slots.end(), units[at + i].begin(), units[at + i].end());
  }
  run.first_microbatch = std::min_element(run.slots.begin(), run.slots.end(),
                                          [](const ScheduleSlot& a, const ScheduleSlot& b) {
                                            return a.microbatch < b.microbatch;
                                          })
                             ->microbatch;
  for (ScheduleSlot& slot : run.slots) slot.microbatch -= run.first_microbatch;
  return run;
}

// The messages of an iteration have arrived when it ends (docs/decisions/pipeline_messages.md), and
// those of the last stage to the first's next chunk arrive p turns later. So there are ends between
// rounds alone, where all stages are near the same unit.
std::vector<ScheduleRun> fold_rounds(const std::vector<Unit>& units, int num_stages,
                                     int num_chunks) {
  const auto is_ahead = [](const Unit& unit) { return unit.size() == 1 && is_forward(unit[0]); };
  const auto ahead =
      static_cast<size_t>(std::find_if_not(units.begin(), units.end(), is_ahead) - units.begin());
  const auto both = static_cast<size_t>(
      std::count_if(units.begin(), units.end(), [](const Unit& unit) { return unit.size() == 2; }));
  const auto round = static_cast<size_t>(int64_t{num_stages} * num_chunks);
  const size_t rounds = both / round;
  const size_t in_rounds = ahead + rounds * round;
  std::vector<ScheduleRun> runs;
  const auto add = [&](const char* name, size_t at, size_t size, int64_t repeat, int64_t stride) {
    if (size == 0 || repeat == 0) return;
    runs.push_back(make_run(units, at, size, repeat, stride));
    runs.back().name = name;
  };
  add("warm-up", 0, ahead, 1, 1);
  add("steady", ahead, round, static_cast<int64_t>(rounds), num_stages);
  add("cool-down", in_rounds, units.size() - in_rounds, 1, 1);
  return runs;
}

}  // namespace

std::vector<ScheduleRun> fold_schedule(ScheduleKind kind, int stage, int num_stages,
                                       int64_t num_microbatches, int num_chunks) {
  const std::vector<Unit> units =
      schedule_units(kind, stage, num_stages, num_microbatches, num_chunks);
  if (num_chunks > 1) return fold_rounds(units, num_stages, num_chunks);
  std::vector<ScheduleRun> runs;
  std::map<std::string, int> named;
  for (size_t at = 0; at < units.size();) {
    const int64_t repeat = count_repeats(units, at, 1, 1);
    ScheduleRun& run = runs.emplace_back(make_run(units, at, 1, repeat, 1));
    run.name = name_of(run.slots);
    if (const int number = ++named[run.name]; number > 1) {
      run.name = fmt::format("{} {}", run.name, number);
    }
    at += static_cast<size_t>(repeat);
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
