#include "program/timeline.h"

#include <algorithm>

namespace plimsoll {

namespace {

struct Event {
  int64_t position;
  int64_t bytes;  // negative where a copy dies
  size_t category;
};

// Births and deaths of transient copies of `place`, by position; `always` gets the persistent ones.
std::vector<Event> collect_events(const StepProgram& program, const Liveness& liveness,
                                  const PhaseLiveness& phase, Place place, TimelinePoint& always) {
  std::vector<Event> events;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.place != place) continue;
    const auto category = static_cast<size_t>(buffer.category);
    const int64_t bytes = program.reserved_bytes(static_cast<int>(b));
    if (buffer.persistent) {
      const int64_t all = checked_mul(bytes, buffer.copies);
      always.live_bytes = checked_add(always.live_bytes, all);
      always.by_category[category] += all;
      continue;
    }
    for (int64_t id = liveness.first_copy[b]; id < liveness.first_copy[b + 1]; ++id) {
      for (const Interval& live : phase.live[static_cast<size_t>(id)]) {
        events.push_back({live.lower, bytes, category});
        events.push_back({live.upper, -bytes, category});
      }
    }
  }
  // Deaths first: a total never counts bytes that are already free.
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.position != b.position ? a.position < b.position : a.bytes < b.bytes;
  });
  return events;
}

// Calls visit(point) for every position in order.
template <typename Visit>
void sweep(const StepProgram& program, const Liveness& liveness, const PhaseLiveness& phase,
           Place place, Visit visit) {
  TimelinePoint now;
  const std::vector<Event> events = collect_events(program, liveness, phase, place, now);
  if (phase.expansion.num_positions() == 0) {
    visit(now);
    return;
  }
  size_t next = 0;
  for (int64_t position = 0; position < phase.expansion.num_positions(); ++position) {
    for (; next < events.size() && events[next].position == position; ++next) {
      now.live_bytes = checked_add(now.live_bytes, events[next].bytes);
      now.by_category[events[next].category] += events[next].bytes;
    }
    now.position = position;
    visit(now);
  }
}

// Keeps the largest point of each (segment, kind, instruction), in that order.
class Folder {
 public:
  explicit Folder(const PhaseExpansion& expansion) : expansion_(expansion) {
    size_t total = 0;
    for (const SegmentExpansion& segment : expansion.segments()) {
      first_.push_back(total);
      total += kKinds * static_cast<size_t>(segment.body_size);
    }
    points_.resize(total);
  }

  void add(TimelinePoint point) {
    if (point.position < 0) return;
    point.folded = expansion_.locate(point.position);
    const auto segment = static_cast<size_t>(point.folded.segment);
    const auto body = static_cast<size_t>(expansion_.segments()[segment].body_size);
    TimelinePoint& best = points_[first_[segment] + static_cast<size_t>(point.folded.kind) * body +
                                  static_cast<size_t>(point.folded.index)];
    if (best.position < 0 || point.live_bytes > best.live_bytes) best = point;
  }

  std::vector<TimelinePoint> take() && {
    std::erase_if(points_, [](const TimelinePoint& point) { return point.position < 0; });
    return std::move(points_);
  }

 private:
  static constexpr size_t kKinds = 4;
  const PhaseExpansion& expansion_;
  std::vector<size_t> first_;
  std::vector<TimelinePoint> points_;
};

int64_t highest_end(const StepProgram& program, const Liveness& liveness,
                    const PhaseLiveness& phase) {
  int64_t highest = 0;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.place != Place::kDevice) continue;
    const int64_t bytes = program.reserved_bytes(static_cast<int>(b));
    for (size_t copy = 0; copy < buffer.offsets.size(); ++copy) {
      const int64_t id = liveness.first_copy[b] + static_cast<int64_t>(copy);
      if (id >= liveness.first_copy[b + 1]) break;
      if (!buffer.persistent && phase.live[static_cast<size_t>(id)].empty()) continue;
      highest = std::max(highest, checked_add(buffer.offsets[copy], bytes));
    }
  }
  return highest;
}

PhaseTimeline phase_timeline(const StepProgram& program, const Liveness& liveness, size_t index) {
  const PhaseLiveness& phase = liveness.phases[index];
  PhaseTimeline out;
  out.phase = program.phases[index].name;
  Folder folder(phase.expansion);
  const auto keep_larger = [](TimelinePoint& best, const TimelinePoint& point) {
    if (point.position <= 0 || point.live_bytes > best.live_bytes) best = point;
  };
  sweep(program, liveness, phase, Place::kDevice, [&](const TimelinePoint& point) {
    folder.add(point);
    keep_larger(out.peak, point);
  });
  sweep(program, liveness, phase, Place::kHost,
        [&](const TimelinePoint& point) { keep_larger(out.host_peak, point); });
  for (TimelinePoint* peak : {&out.peak, &out.host_peak}) {
    if (peak->position >= 0) peak->folded = phase.expansion.locate(peak->position);
  }
  out.points = std::move(folder).take();
  out.arena_bytes = highest_end(program, liveness, phase);
  return out;
}

}  // namespace

int64_t MemoryTimeline::host_peak_bytes() const {
  int64_t peak = 0;
  for (const PhaseTimeline& phase : phases) peak = std::max(peak, phase.host_peak.live_bytes);
  return peak;
}

MemoryTimeline compute_timeline(const StepProgram& program, const Liveness& liveness) {
  MemoryTimeline out;
  for (size_t p = 0; p < program.phases.size(); ++p) {
    out.phases.push_back(phase_timeline(program, liveness, p));
    const bool larger =
        out.peak_phase < 0 || out.phases.back().peak.live_bytes > out.live_peak_bytes();
    if (larger) out.peak_phase = static_cast<int>(p);
  }
  return out;
}

MemoryTimeline compute_timeline(const StepProgram& program) {
  return compute_timeline(program, compute_liveness(program));
}

std::vector<LiveCopy> live_at(const StepProgram& program, const Liveness& liveness, int phase,
                              int64_t position, Place place) {
  const PhaseLiveness& lives = liveness.phases[static_cast<size_t>(phase)];
  const auto is_live = [&](const Buffer& buffer, int64_t id) {
    if (buffer.persistent) return true;
    const std::vector<Interval>& live = lives.live[static_cast<size_t>(id)];
    const auto after =
        std::upper_bound(live.begin(), live.end(), position,
                         [](int64_t at, const Interval& interval) { return at < interval.lower; });
    return after != live.begin() && position < (after - 1)->upper;
  };
  std::vector<LiveCopy> out;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    if (program.buffers[b].place != place) continue;
    for (int64_t id = liveness.first_copy[b]; id < liveness.first_copy[b + 1]; ++id) {
      if (!is_live(program.buffers[b], id)) continue;
      const int buffer = static_cast<int>(b);
      out.push_back({buffer, id - liveness.first_copy[b], program.reserved_bytes(buffer)});
    }
  }
  return out;
}

}  // namespace plimsoll
