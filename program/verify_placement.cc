#include "program/verify_rules.h"

#include <algorithm>
#include <map>

namespace plimsoll::rules {

namespace {

// A copy that lives in some phase takes part in the placement; the others have offsets nobody uses.
bool is_used(const Liveness& liveness, bool persistent, int64_t id) {
  if (persistent) return true;
  return std::any_of(
      liveness.phases.begin(), liveness.phases.end(),
      [&](const PhaseLiveness& phase) { return !phase.live[static_cast<size_t>(id)].empty(); });
}

// Calls visit(buffer index, copy, id) for each placed device copy that is used.
template <typename Visit>
void for_each_used_copy(const StepProgram& program, const Liveness& liveness, Visit visit) {
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.place != Place::kDevice) continue;
    for (size_t copy = 0; copy < buffer.offsets.size(); ++copy) {
      const int64_t id = liveness.first_copy[b] + static_cast<int64_t>(copy);
      if (is_used(liveness, buffer.persistent, id)) visit(b, copy, id);
    }
  }
}

struct Top {
  int64_t end = 0;
  int buffer = kNoBuffer;
  size_t copy = 0;
};

// The used copy with the highest end. Assumes offsets_valid.
Top highest(const StepProgram& program, const Liveness& liveness) {
  Top top;
  for_each_used_copy(program, liveness, [&](size_t b, size_t copy, int64_t) {
    const auto buffer = static_cast<int>(b);
    const int64_t end = program.buffers[b].offsets[copy] + program.reserved_bytes(buffer);
    if (end > top.end) top = {end, buffer, copy};
  });
  return top;
}

// The ranges that are live at one position, by offset.
class LiveRanges {
 public:
  struct Range {
    int64_t end;
    int buffer;
    size_t copy;
  };

  // Adds the range unless it overlaps one that is there, which is then returned.
  const Range* add(int64_t offset, const Range& range) {
    const auto after = ranges_.lower_bound(offset);
    if (after != ranges_.end() && after->first < range.end) return &after->second;
    if (after != ranges_.begin() && std::prev(after)->second.end > offset) {
      return &std::prev(after)->second;
    }
    ranges_.emplace_hint(after, offset, range);
    return nullptr;
  }
  void remove(int64_t offset, int buffer, size_t copy) {
    const auto at = ranges_.find(offset);
    // A range that overlapped was never added; its offset may be another's.
    if (at != ranges_.end() && at->second.buffer == buffer && at->second.copy == copy)
      ranges_.erase(at);
  }

 private:
  std::map<int64_t, Range> ranges_;
};

struct Event {
  int64_t position;
  bool birth;
  int buffer;
  size_t copy;
};

std::vector<Event> collect_events(const StepProgram& program, const Liveness& liveness,
                                  const PhaseLiveness& phase) {
  std::vector<Event> events;
  for_each_used_copy(program, liveness, [&](size_t b, size_t copy, int64_t id) {
    const auto buffer = static_cast<int>(b);
    if (program.buffers[b].persistent) {
      events.push_back({0, true, buffer, copy});
      return;
    }
    for (const Interval& live : phase.live[static_cast<size_t>(id)]) {
      events.push_back({live.lower, true, buffer, copy});
      events.push_back({live.upper, false, buffer, copy});
    }
  });
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.position != b.position ? a.position < b.position : a.birth < b.birth;
  });
  return events;
}

}  // namespace

void offsets_valid(const StepProgram& program, const Liveness& liveness, Violations& out) {
  Report report("offset", out);
  const int64_t alignment = program.header.alignment;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.place == Place::kHost) {
      if (!buffer.offsets.empty()) report.add("host buffer '{}' has an offset", buffer.name);
    } else if (static_cast<int64_t>(buffer.offsets.size()) != buffer.copies) {
      report.add("buffer '{}' has {} copies and {} offsets", buffer.name, buffer.copies,
                 buffer.offsets.size());
    }
    for (const int64_t offset : buffer.offsets) {
      if (offset < 0 || offset % alignment != 0) {
        report.add("buffer '{}': offset {} is not a multiple of {}", buffer.name, offset,
                   alignment);
      }
    }
  }
  if (report.any()) return;
  for_each_used_copy(program, liveness, [&](size_t b, size_t copy, int64_t) {
    const Buffer& buffer = program.buffers[b];
    const int64_t bytes = program.reserved_bytes(static_cast<int>(b));
    const int64_t arena = program.header.arena_bytes;
    if (buffer.offsets[copy] > arena - bytes) {
      report.add("buffer '{}' (copy {}): offset {} and {} bytes reach past the arena of {}",
                 buffer.name, copy, buffer.offsets[copy], bytes, arena);
    }
  });
}

void no_overlap(const StepProgram& program, const Liveness& liveness, Violations& out) {
  Report report("overlap", out);
  for (size_t p = 0; p < program.phases.size(); ++p) {
    const PhaseLiveness& phase = liveness.phases[p];
    LiveRanges ranges;
    for (const Event& event : collect_events(program, liveness, phase)) {
      const Buffer& buffer = program.buffers[static_cast<size_t>(event.buffer)];
      const int64_t offset = buffer.offsets[event.copy];
      if (!event.birth) {
        ranges.remove(offset, event.buffer, event.copy);
        continue;
      }
      const int64_t end = offset + program.reserved_bytes(event.buffer);
      const LiveRanges::Range* other = ranges.add(offset, {end, event.buffer, event.copy});
      if (other == nullptr) continue;
      const Buffer& holder = program.buffers[static_cast<size_t>(other->buffer)];
      const std::string at =
          event.position < phase.expansion.num_positions()
              ? position_text(program.phases[p], phase.expansion.locate(event.position))
              : fmt::format("phase '{}'", program.phases[p].name);
      report.add(
          "{}: buffers '{}' (copy {}, bytes {} to {}) and '{}' (copy {}, bytes {} to {}) are live "
          "in the same bytes",
          at, holder.name, other->copy, holder.offsets[other->copy], other->end, buffer.name,
          event.copy, offset, end);
      if (report.full()) return;
    }
  }
}

void arena_exact(const StepProgram& program, const Liveness& liveness, Violations& out) {
  Report report("arena", out);
  const Top top = highest(program, liveness);
  if (top.end != program.header.arena_bytes) {
    report.add("arena_bytes is {}, the highest buffer ends at {}", program.header.arena_bytes,
               top.end);
  }
}

void arena_end_written(const StepProgram& program, const Liveness& liveness, Violations& out) {
  Report report("arena-end-written", out);
  const Top top = highest(program, liveness);
  if (top.buffer == kNoBuffer) return;
  const Buffer& buffer = program.buffers[static_cast<size_t>(top.buffer)];
  if (buffer.name == kScalarsBuffer) return;  // the executor writes them all before each step
  const auto id = static_cast<size_t>(liveness.copy_id(top.buffer, static_cast<int64_t>(top.copy)));
  const bool written = std::any_of(liveness.phases.begin(), liveness.phases.end(),
                                   [&](const PhaseLiveness& phase) { return phase.defined[id]; });
  if (!written) {
    report.add("buffer '{}' (copy {}) is the highest, and no instruction defines it", buffer.name,
               top.copy);
  }
}

}  // namespace plimsoll::rules
