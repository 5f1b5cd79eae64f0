// How far the sizes go: the largest micro-batch and sequence, the fewest and the smallest devices.
#include "base/error.h"
#include "planner/advisor_context.h"

#include <algorithm>
#include <map>

namespace plimsoll {

namespace {

// Evaluates the configuration with one value of a size.
using AtValue = std::function<const Evaluated&(int64_t value)>;

// Looks for the largest value that fits, and remembers what it saw.
class LargestSearch {
 public:
  LargestSearch(const AdvisorContext& context, AtValue at)
      : context_(context), at_(std::move(at)) {}

  // Index of the last of `count` values that fits, -1 when none does; value_of maps an index.
  template <typename ValueOf>
  int64_t last_fit(int64_t low, int64_t high, ValueOf value_of) {
    // Invariant: low fits or lies before all, high does not fit or lies behind all.
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (fits(value_of(middle)) ? low : high) = middle;
    }
    return low;
  }

  bool fits(int64_t value) {
    const Evaluated& one = at_(value);
    seen_[value] = &one;
    return one.fits(context_.request.memory_limit_bytes);
  }

  // What is to be told about the largest value that fits, 0 when none does.
  [[nodiscard]] Largest result(int64_t value, const std::string& no_larger) const {
    Largest largest;
    largest.value = value;
    if (value > 0) largest.at = context_.option(seen_.at(value)->configuration);
    const auto next = seen_.upper_bound(value);
    largest.limited_by_memory = next != seen_.end() && next->second->refusal.empty();
    if (largest.limited_by_memory) {
      largest.next_value = next->first;
      largest.next_peak_bytes = next->second->predicted.peak_bytes;
    } else {
      largest.reason = next == seen_.end() ? no_larger : next->second->refusal;
    }
    largest.monotone = is_monotone();
    return largest;
  }

  [[nodiscard]] bool is_monotone() const {
    int64_t before = 0;
    for (const auto& [value, one] : seen_) {
      if (!one->refusal.empty()) continue;
      if (one->predicted.peak_bytes < before) return false;
      before = one->predicted.peak_bytes;
    }
    return true;
  }

 private:
  const AdvisorContext& context_;
  AtValue at_;
  std::map<int64_t, const Evaluated*> seen_;
};

Largest largest_divisor(const AdvisorContext& context, const AtValue& at) {
  const Configuration& base = context.base.configuration;
  const std::vector<int64_t> sizes =
      divisors(base.job.global_batch / base.strategy.num_sample_ranks());
  const auto value_of = [&](int64_t i) { return sizes[static_cast<size_t>(i)]; };
  const auto count = static_cast<int64_t>(sizes.size());
  LargestSearch search(context, at);
  // The whole share needs no accumulation, so it may need less than the size before it.
  int64_t last = search.fits(sizes.back()) ? count - 1 : search.last_fit(-1, count - 1, value_of);
  if (!search.is_monotone() && last < count - 1) {
    for (last = count - 2; last >= 0 && !search.fits(value_of(last));) --last;
  }
  return search.result(last < 0 ? 0 : value_of(last), "it is the whole share of a rank");
}

Largest largest_length(const AdvisorContext& context, const AtValue& at) {
  // Positions beyond this are no sequence that anyone trains on.
  constexpr int64_t kLongest = int64_t{1} << 24;
  const int64_t now = context.base.configuration.job.seq;
  const int64_t shortest = std::min(now, context.base.configuration.strategy.loss_chunks);
  const auto same = [](int64_t value) { return value; };
  LargestSearch search(context, at);
  int64_t low = now;
  int64_t high = now;
  if (!search.fits(now)) {
    if (now == shortest || !search.fits(shortest)) return search.result(0, "");
    low = shortest;
  } else {
    for (high = 2 * now; high <= kLongest && search.fits(high); high *= 2) low = high;
    if (high > kLongest) return search.result(low, "longer ones were not tried");
  }
  return search.result(search.last_fit(low, high, same), "");
}

// A cluster of n devices of the same kind.
Cluster resized(const Cluster& cluster, int64_t n) {
  if (n == cluster.num_devices()) return cluster;
  const Hardware& device = cluster.device;
  const std::string text = fmt::format("{}x{}", n, device.id);
  if (device.shares_cores || find_hardware(device.id) == device) return parse_cluster(text);
  // Figures of a cluster file: as many nodes as the sizes given there fill.
  Cluster other = cluster;
  const int64_t per_node = std::max(cluster.devices_per_node, device.devices_per_node);
  other.text = text;
  other.devices_per_node = std::min(n, per_node);
  while (n % other.devices_per_node != 0) --other.devices_per_node;
  other.nodes = n / other.devices_per_node;
  return other;
}

// The configuration on `ranks` data-parallel ranks: the micro-batch as large as before if the
// share of a rank allows.
Configuration spread(const Configuration& from, int64_t ranks) {
  Configuration c = from;
  c.strategy.dp = static_cast<int>(ranks);
  c.cluster = resized(from.cluster, c.strategy.num_ranks());
  if (ranks == 1) {
    c.strategy.zero = 0;  // nothing to shard over
    c.strategy.zero_prefetch = false;
  }
  for (const int64_t size : divisors(from.job.global_batch / ranks)) {
    if (size <= from.strategy.micro_batch) c.strategy.micro_batch = size;
  }
  return c;
}

// The same shape of cluster with another device.
Cluster on_device(const Cluster& cluster, const Hardware& device) {
  return parse_cluster(
      cluster.nodes == 1
          ? fmt::format("{}x{}", cluster.devices_per_node, device.id)
          : fmt::format("{}x{}x{}", cluster.nodes, cluster.devices_per_node, device.id));
}

std::optional<Option> smallest_device(const AdvisorContext& context, const Evaluated& of) {
  std::vector<const Hardware*> devices;
  for (const Hardware& device : all_hardware()) {
    // What lies outside the arena depends on the device, the arena does not.
    if (!device.shares_cores && device.memory_bytes() > of.predicted.arena_bytes) {
      devices.push_back(&device);
    }
  }
  std::stable_sort(devices.begin(), devices.end(), [](const Hardware* a, const Hardware* b) {
    return a->memory_bytes() < b->memory_bytes();
  });
  for (const Hardware* device : devices) {
    Configuration c = of.configuration;
    c.cluster = on_device(c.cluster, *device);
    if (c.cluster.num_devices() != of.configuration.cluster.num_devices()) continue;
    if (context.evaluator.evaluate(c).fits(device->memory_bytes())) {
      return context.option(c, device->memory_bytes());
    }
  }
  return std::nullopt;
}

}  // namespace

LargestPair largest_micro_batch(const AdvisorContext& context) {
  const auto with = [&](int64_t size) {
    Configuration c = context.base.configuration;
    c.strategy.micro_batch = size;
    return c;
  };
  return {
      largest_divisor(
          context,
          [&](int64_t size) -> const Evaluated& { return context.evaluator.evaluate(with(size)); }),
      largest_divisor(context, [&](int64_t size) -> const Evaluated& {
        return context.least_open(with(size), context.request.memory_limit_bytes, "micro_batch");
      })};
}

LargestPair largest_seq(const AdvisorContext& context) {
  const auto with = [&](int64_t seq) {
    Configuration c = context.base.configuration;
    c.job.seq = seq;
    return c;
  };
  return {largest_length(context,
                         [&](int64_t seq) -> const Evaluated& {
                           return context.evaluator.evaluate(with(seq));
                         }),
          largest_length(context, [&](int64_t seq) -> const Evaluated& {
            return context.least_open(with(seq), context.request.memory_limit_bytes);
          })};
}

DeviceAdvice device_advice(const AdvisorContext& context, const PeakAnatomy& anatomy) {
  const int64_t limit = context.request.memory_limit_bytes;
  DeviceAdvice advice;
  advice.floor_bytes = anatomy.floor_bytes;
  const int64_t states = anatomy.floor_bytes - anatomy.outside_bytes;
  const int64_t room = limit - context.base.configuration.cluster.device.outside_bytes(0);
  advice.least_if_sharded = room > 0 ? (states + room - 1) / room : 0;
  // Sharded states shrink with the number of devices.
  advice.states_exceed = states > room && context.base.configuration.strategy.zero == 0;
  if (advice.states_exceed) return advice;
  const Configuration& base = context.base.configuration;
  const Evaluated& least = context.least_open(base, limit);
  for (const int64_t ranks : divisors(base.job.global_batch)) {
    if (advice.configured && advice.open) break;
    if (ranks > kMaxDevices) break;
    const Configuration same = spread(base, ranks);
    if (!advice.configured && context.fits(same)) advice.configured = context.option(same);
    if (advice.open) continue;
    // At the least memory: one sample at a time, or the whole share without accumulation.
    Configuration open = spread(least.configuration, ranks);
    for (const int64_t size : {int64_t{1}, base.job.global_batch / ranks}) {
      if (!context.request.pins.micro_batch) open.strategy.micro_batch = size;
      if (!advice.open && context.fits(open)) advice.open = context.option(open);
    }
  }
  return advice;
}

HardwareAdvice hardware_advice(const AdvisorContext& context) {
  // Without a limit of its own `least_open` gives the least peak of all.
  const Evaluated& least = context.least_open(context.base.configuration, 0);
  return {smallest_device(context, context.base), smallest_device(context, least)};
}

}  // namespace plimsoll
