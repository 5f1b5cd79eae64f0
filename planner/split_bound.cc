#include "planner/split_bound.h"

#include <algorithm>
#include <array>
#include <vector>

namespace plimsoll::internal {

namespace {

// A kind of body of a stage, in the order in which they run: so many times, with the times of what
// is in it (0 for what is not).
struct Body {
  int64_t count = 0;
  double seconds = 0;
  double lead = 0;  // from its start to the gradient's leaving
  // From a gradient's arrival to its leaving and to the end of the body.
  double backward_path = 0, backward_rest = 0;
  // The same from an activation's arrival.
  double turn_path = 0, turn_rest = 0;
  bool has_backward = false;
};

// Forwards that run ahead; forward and backward, then with a weights' part; a backward, then with a
// weights' part; weights' parts that are left.
constexpr size_t kNumKinds = 6;

class Bodies {
 public:
  explicit Bodies(const StageLoad& s) {
    const StageTimes& t = s.times;
    const int64_t m = s.ahead + s.steady;
    const int64_t more = std::max(s.steady, s.behind);
    kinds_[0] = {s.ahead, t[kForwardSeconds], 0, 0, 0, 0, t[kForwardRest], false};
    kinds_[1] = {
        std::min(s.steady, s.behind), t[kHeldSeconds],  t[kHeldLead],     t[kHeldBackwardPath],
        t[kHeldBackwardRest],         t[kHeldTurnPath], t[kHeldTurnRest], true};
    kinds_[2] = {more - s.behind,        t[kSteadySeconds], t[kSteadyLead], t[kSteadyBackwardPath],
                 t[kSteadyBackwardRest], t[kTurnPath],      t[kTurnRest],   true};
    kinds_[3] = {
        more - s.steady, t[kInputSeconds], t[kInputLead], t[kInputPath], t[kInputRest], 0, 0, true};
    kinds_[4] = {
        m - more, t[kBackwardSeconds], t[kBackwardLead], t[kBackwardPath], t[kBackwardRest], 0, 0,
        true};
    kinds_[5] = {s.behind, t[kWeightSeconds], 0, 0, 0, 0, 0, false};
    for (size_t k = 0; k < kNumKinds; ++k) {
      if (kinds_[k].count == 0 || !kinds_[k].has_backward) continue;
      if (first_backward_ == kNumKinds) first_backward_ = k;
      last_backward_ = k;
      num_backwards_ += kinds_[k].count;
    }
  }

  // The first body, and those with the first and the last backward.
  [[nodiscard]] const Body& first() const {
    return kinds_[kinds_[0].count > 0 ? 0 : first_backward_];
  }
  [[nodiscard]] const Body& first_backward() const { return kinds_[first_backward_]; }
  [[nodiscard]] const Body& last_backward() const { return kinds_[last_backward_]; }
  [[nodiscard]] bool one_backward() const { return num_backwards_ == 1; }

  // Seconds of the bodies before that with the last backward.
  [[nodiscard]] double before_last() const {
    double sum = -last_backward().seconds;
    for (size_t k = 0; k <= last_backward_; ++k) sum += total(k);
    return sum;
  }
  // Of those after it: weights' parts.
  [[nodiscard]] double after_last() const { return total(kNumKinds - 1); }
  [[nodiscard]] double ahead() const { return total(0); }

  // The shortest way of a gradient through the stage, or to the end of its body.
  [[nodiscard]] double least(double Body::*seconds) const {
    double least = first_backward().*seconds;
    for (const Body& body : kinds_) {
      if (body.count > 0 && body.has_backward) least = std::min(least, body.*seconds);
    }
    return least;
  }

 private:
  [[nodiscard]] double total(size_t k) const {
    return static_cast<double>(kinds_[k].count) * kinds_[k].seconds;
  }

  std::array<Body, kNumKinds> kinds_;
  size_t first_backward_ = kNumKinds;
  size_t last_backward_ = 0;
  int64_t num_backwards_ = 0;
};

// The last micro-batch's gradient arrives at stage r: the end of the step from there.
double finish_below(std::span<const StageLoad> stages, std::span<const Bodies> bodies, size_t r,
                    double arrival) {
  double end = 0;
  for (;; --r) {
    const Body& last = bodies[r].last_backward();
    end = std::max(
        end, arrival + last.backward_rest + bodies[r].after_last() + stages[r].times[kEndSeconds]);
    if (r == 0) return end;
    arrival += last.backward_path + stages[r].times[kBackwardMessage];
  }
}

// The same from the start of stage r's body with the last backward.
double finish_from(std::span<const StageLoad> stages, std::span<const Bodies> bodies, size_t r,
                   double start) {
  const Body& last = bodies[r].last_backward();
  const StageTimes& times = stages[r].times;
  double end = start + last.seconds + bodies[r].after_last() + times[kEndSeconds];
  if (r > 0) {
    end = std::max(
        end, finish_below(stages, bodies, r - 1, start + last.lead + times[kBackwardMessage]));
  }
  return end;
}

}  // namespace

double split_step_bound(std::span<const StageLoad> stages) {
  const std::vector<Bodies> bodies(stages.begin(), stages.end());
  const size_t last = stages.size() - 1;
  double bound = 0;
  double arrival = stages[0].times[kBeginSeconds];  // of the first activation at stage r
  for (size_t r = 0; r <= last; ++r) {
    const Bodies& own = bodies[r];
    const StageTimes& times = stages[r].times;
    const double rest = r == 0 ? own.first().seconds : own.first().turn_rest;
    const bool is_last_too = !own.first().has_backward ? false : own.one_backward();
    if (!is_last_too) {
      const double start = arrival + rest - own.first().seconds + own.before_last();
      bound = std::max(bound, finish_from(stages, bodies, r, start));
    } else {
      bound = std::max(bound, arrival + rest + own.after_last() + times[kEndSeconds]);
    }
    if (r < last) arrival += times[kForwardPath] + times[kForwardMessage];
  }
  // Back from the last stage: the first gradient's arrival at stage r.
  double gradient = arrival + bodies[last].first().turn_path + stages[last].times[kBackwardMessage];
  for (size_t r = last; r-- > 0;) {
    const Bodies& own = bodies[r];
    const Body& first = own.first_backward();
    if (own.one_backward()) {
      bound = std::max(bound, finish_below(stages, bodies, r, gradient));
    } else {
      const double start =
          gradient + first.backward_rest - first.seconds + own.before_last() - own.ahead();
      bound = std::max(bound, finish_from(stages, bodies, r, start));
    }
    gradient += first.backward_path + stages[r].times[kBackwardMessage];
  }
  return bound;
}

double split_passing_seconds(const StageLoad& s, bool is_first, bool is_last) {
  const Bodies bodies(s);
  const StageTimes& t = s.times;
  if (is_last) return bodies.first().turn_path + t[kBackwardMessage];
  const double forward = t[kForwardPath] + t[kForwardMessage];
  if (!is_first) return forward + bodies.least(&Body::backward_path) + t[kBackwardMessage];
  return forward + bodies.least(&Body::backward_rest) + t[kBeginSeconds] + t[kEndSeconds];
}

double split_own_seconds(const StageLoad& s, bool is_first, bool is_last) {
  const Bodies bodies(s);
  if (bodies.one_backward()) return 0;
  const Body& first = bodies.first_backward();
  const Body& last = bodies.last_backward();
  const double between = bodies.before_last() - bodies.ahead() - first.seconds;
  if (is_last) return first.turn_rest + between + last.lead - first.turn_path;
  if (is_first) {
    return first.backward_rest + between + last.seconds - bodies.least(&Body::backward_rest);
  }
  return first.backward_rest + between + last.lead - bodies.least(&Body::backward_path);
}

}  // namespace plimsoll::internal
