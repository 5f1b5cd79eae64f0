// Work that slows down when others use the same thing: transfers over a port, devices over cores.
//
// A resource gives each of its n users min(limit, total / n) of the rate they would have alone; a
// flow that uses several resources goes at the least of what they give. Rates change only when a
// flow begins or ends, so each flow's end is known until then.
#pragma once

#include <algorithm>
#include <vector>

namespace plimsoll {

class SharedRates {
 public:
  // A resource's number. `limit` is what one user has at most, `total` what all have together.
  int add_resource(double limit, double total) {
    resources_.push_back({limit, total, 0});
    return static_cast<int>(resources_.size()) - 1;
  }

  // Flow `id` begins, with `seconds` of work at rate 1 that need resources `a` and `b` (may be the
  // same). Calls reschedule(id, end) for each flow whose end is new.
  template <typename Reschedule>
  void begin(int id, double seconds, int a, int b, double now, Reschedule&& reschedule) {
    flows_.push_back({id, a, b, seconds, 0, now});
    count(flows_.back(), 1);
    settle(now, reschedule);
  }

  template <typename Reschedule>
  void end(int id, double now, Reschedule&& reschedule) {
    const auto flow = std::find_if(flows_.begin(), flows_.end(),
                                   [id](const Flow& candidate) { return candidate.id == id; });
    count(*flow, -1);
    flows_.erase(flow);
    settle(now, reschedule);
  }

 private:
  struct Resource {
    double limit;
    double total;
    int users;
  };
  struct Flow {
    int id;
    int a;
    int b;
    double remaining;  // at `updated`, in seconds at rate 1
    double rate;
    double updated;
  };

  void count(const Flow& flow, int change) {
    resources_[static_cast<size_t>(flow.a)].users += change;
    if (flow.b != flow.a) resources_[static_cast<size_t>(flow.b)].users += change;
  }

  [[nodiscard]] double share(int resource) const {
    const Resource& r = resources_[static_cast<size_t>(resource)];
    return std::min(r.limit, r.total / r.users);
  }

  template <typename Reschedule>
  void settle(double now, Reschedule&& reschedule) {
    for (Flow& flow : flows_) {
      const double rate = std::min(share(flow.a), share(flow.b));
      if (rate == flow.rate) continue;
      flow.remaining = std::max(flow.remaining - flow.rate * (now - flow.updated), 0.0);
      flow.rate = rate;
      flow.updated = now;
      reschedule(flow.id, now + flow.remaining / rate);
    }
  }

  std::vector<Resource> resources_;
  std::vector<Flow> flows_;
};

}  // namespace plimsoll
