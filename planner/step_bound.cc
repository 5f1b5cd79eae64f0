#include "planner/step_bound.h"

#include "base/error.h"
#include "planner/split_bound.h"

#include <algorithm>
#include <vector>

namespace plimsoll {

namespace {

// Seconds of the body that a gradient's last micro-batch is in, until the gradient leaves.
double last_lead(const StageLoad& s) { return s.times[s.ahead > 0 ? kBackwardLead : kSteadyLead]; }

double last_body(const StageLoad& s) {
  return s.times[s.ahead > 0 ? kBackwardSeconds : kSteadySeconds];
}

// Seconds of all bodies but the first, `rest` of which is still to come, and the last one.
double between(const StageLoad& s, double rest, bool from_forward) {
  const auto ahead = static_cast<double>(s.ahead);
  const auto steady = static_cast<double>(s.steady);
  const StageTimes& t = s.times;
  if (from_forward && s.ahead > 0) {
    return rest + (ahead - 1) * t[kForwardSeconds] + steady * t[kSteadySeconds] +
           (ahead - 1) * t[kBackwardSeconds];
  }
  if (s.ahead == 0) return rest + (steady - 2) * t[kSteadySeconds];
  if (s.steady == 0) return rest + (ahead - 2) * t[kBackwardSeconds];
  return rest + (steady - 1) * t[kSteadySeconds] + (ahead - 1) * t[kBackwardSeconds];
}

// The last micro-batch's gradient leaves the stage and ends on the first.
class WayBack {
 public:
  explicit WayBack(std::span<const StageLoad> stages) : after_(stages.size(), 0) {
    for (size_t r = 1; r < stages.size(); ++r) {
      const StageLoad& before = stages[r - 1];
      const bool alone = before.ahead == 0;
      const double pass =
          r == 1 ? before.times[alone ? kSteadyBackwardRest : kBackwardRest] +
                       before.times[kEndSeconds]
                 : before.times[alone ? kSteadyBackwardPath : kBackwardPath] + after_[r - 1];
      after_[r] = stages[r].times[kBackwardMessage] + pass;
    }
  }
  // From the gradient's leaving of stage r.
  [[nodiscard]] double after(size_t r) const { return after_[r]; }

 private:
  std::vector<double> after_;
};

}  // namespace

StageLoad load_of(const StageShape& shape, const StageTimes& times) {
  return {times, shape.ahead, shape.steady, shape.split, shape.behind};
}

double step_bound(std::span<const StageLoad> stages) {
  PLIMSOLL_CHECK(!stages.empty(), "no stages");
  if (stages.front().split) return internal::split_step_bound(stages);
  const size_t p = stages.size();
  if (p == 1) {
    const StageLoad& s = stages.front();
    return s.times[kBeginSeconds] + static_cast<double>(s.steady) * s.times[kSteadySeconds] +
           s.times[kEndSeconds];
  }
  const WayBack back(stages);
  // From the last body's start, or from `seconds` after its start.
  const auto finish = [&](size_t r, double from, bool single, double rest) {
    const StageLoad& s = stages[r];
    const double body = single ? rest : last_body(s);
    double end = from + body + s.times[kEndSeconds];
    if (r > 0) {
      const double lead =
          single ? std::max(0.0, rest - (last_body(s) - last_lead(s))) : last_lead(s);
      end = std::max(end, from + lead + back.after(r));
    }
    return end;
  };
  double bound = 0;
  double arrival = stages[0].times[kBeginSeconds];  // of the first activation at stage r
  for (size_t r = 0; r < p; ++r) {
    const StageLoad& s = stages[r];
    const StageTimes& t = s.times;
    if (s.ahead > 0) {
      const double rest = r == 0 ? t[kForwardSeconds] : t[kForwardRest];
      bound = std::max(bound, finish(r, arrival + between(s, rest, true), false, 0));
    } else if (s.steady == 1) {
      bound = std::max(bound, finish(r, arrival, true, t[kTurnRest]));
    } else {
      bound = std::max(bound, finish(r, arrival + between(s, t[kTurnRest], true), false, 0));
    }
    if (r + 1 < p) arrival += t[kForwardPath] + t[kForwardMessage];
  }
  // Back from the last stage: the first gradient's arrival at stage r.
  const StageLoad& last = stages[p - 1];
  double gradient = arrival;
  if (last.ahead == 0) {
    gradient += last.times[kTurnPath] + last.times[kBackwardMessage];
  } else {  // gpipe: all forwards, then a backward that waits for no message
    gradient += last.times[kForwardRest] +
                static_cast<double>(last.ahead - 1) * last.times[kForwardSeconds] +
                last.times[kBackwardLead] + last.times[kBackwardMessage];
  }
  for (size_t r = p - 1; r-- > 0;) {
    const StageLoad& s = stages[r];
    const StageTimes& t = s.times;
    const bool steady_first = s.steady > 0;
    const double rest = t[steady_first ? kSteadyBackwardRest : kBackwardRest];
    const bool single = s.steady + s.ahead == 1;
    bound = std::max(bound, single ? finish(r, gradient, true, rest)
                                   : finish(r, gradient + between(s, rest, false), false, 0));
    if (r > 0) {
      gradient += t[steady_first ? kSteadyBackwardPath : kBackwardPath] + t[kBackwardMessage];
    }
  }
  return bound;
}

namespace {

// The shortest way of a gradient through the stage (on the first: to the end of the body).
double backward_passing(const StageLoad& s, bool is_first) {
  const double in_steady = s.times[is_first ? kSteadyBackwardRest : kSteadyBackwardPath];
  const double alone = s.times[is_first ? kBackwardRest : kBackwardPath];
  if (s.ahead == 0) return in_steady;
  return s.steady == 0 ? alone : std::min(in_steady, alone);
}

}  // namespace

double passing_seconds(const StageLoad& s, bool is_first, bool is_last) {
  if (s.split) return internal::split_passing_seconds(s, is_first, is_last);
  const StageTimes& t = s.times;
  if (is_first && is_last) return t[kBeginSeconds] + t[kEndSeconds];
  if (is_last && s.ahead == 0) return t[kTurnPath] + t[kBackwardMessage];
  if (is_last) {
    return t[kForwardRest] + static_cast<double>(s.ahead - 1) * t[kForwardSeconds] +
           t[kBackwardLead] + t[kBackwardMessage];
  }
  const double through = t[kForwardPath] + t[kForwardMessage] + backward_passing(s, is_first);
  return through + (is_first ? t[kBeginSeconds] + t[kEndSeconds] : t[kBackwardMessage]);
}

double own_seconds(const StageLoad& s, bool is_first, bool is_last) {
  if (s.split) return internal::split_own_seconds(s, is_first, is_last);
  const StageTimes& t = s.times;
  if (is_first && is_last) return static_cast<double>(s.steady) * t[kSteadySeconds];
  if (is_last && s.ahead > 0) return static_cast<double>(s.ahead - 1) * t[kBackwardSeconds];
  if (is_last) {
    if (s.steady == 1) return 0;
    return between(s, t[kTurnRest], true) + t[kSteadyLead] - t[kTurnPath];
  }
  if (s.ahead + s.steady == 1) return 0;
  const double rest = t[s.steady > 0 ? kSteadyBackwardRest : kBackwardRest];
  const double last = is_first ? last_body(s) : last_lead(s);
  return between(s, rest, false) + last - backward_passing(s, is_first);
}

}  // namespace plimsoll
