#include "costmodel/collective_time.h"

#include "base/error.h"

#include <algorithm>

namespace plimsoll {

namespace {

struct Path {
  double latency_seconds;
  double bytes_per_second;
};

// Where the link reaches over members that are `stride` apart, up to a node's end.
double local_rate(const CollectiveGroup& group, const Cluster& cluster) {
  const Hardware& device = cluster.device;
  const int64_t extent = (group.size - 1) * group.stride + 1;
  const bool linked = device.link_bytes_per_second > 0 &&
                      std::min(extent, cluster.devices_per_node) <= device.link_devices;
  return linked ? device.link_bytes_per_second : device.pcie_bytes_per_second;
}

int64_t members_a_node(const CollectiveGroup& group, const Cluster& cluster) {
  return std::clamp<int64_t>(cluster.devices_per_node / group.stride, 1, group.size);
}

// A ring passes a node's border once for all its members; here every rank sends to every other.
double all_to_all_transfer(double bytes, const CollectiveGroup& group, const Cluster& cluster) {
  const Hardware& device = cluster.device;
  const bool inside_node = (group.size - 1) * group.stride < cluster.devices_per_node;
  const int64_t members = inside_node ? group.size : members_a_node(group, cluster);
  const double part = bytes / static_cast<double>(group.size);
  const double local = part * static_cast<double>(members - 1) /
                       (local_rate(group, cluster) * device.collective_efficiency);
  if (inside_node) return local;
  return std::max(local, part * static_cast<double>(group.size - members) /
                             (device.network_bytes_per_second * device.collective_efficiency));
}

Path path_of(const CollectiveGroup& group, const Cluster& cluster) {
  const Hardware& device = cluster.device;
  // Ranks between the first and the last member, both counted.
  const int64_t extent = (group.size - 1) * group.stride + 1;
  const bool inside_node = extent <= cluster.devices_per_node;
  const int64_t members = members_a_node(group, cluster);
  const double local = local_rate(group, cluster);
  if (inside_node) return {device.link_latency_seconds, local * device.collective_efficiency};
  const double network = device.network_bytes_per_second * static_cast<double>(members);
  // With one member a node, nothing is exchanged inside nodes.
  const double slowest = members > 1 ? std::min(local, network) : network;
  return {device.network_latency_seconds, slowest * device.collective_efficiency};
}

}  // namespace

std::optional<Collective> find_collective(std::string_view op) {
  if (op == "all_reduce") return Collective::kAllReduce;
  if (op == "all_gather") return Collective::kAllGather;
  if (op == "reduce_scatter") return Collective::kReduceScatter;
  if (op == "all_to_all") return Collective::kAllToAll;
  if (op == "send" || op == "receive") return Collective::kSendReceive;
  return std::nullopt;
}

double RingTime::collective_seconds(Collective kind, double bytes, const CollectiveGroup& group,
                                    const Cluster& cluster) const {
  PLIMSOLL_CHECK(group.size >= 1 && group.stride >= 1 && bytes >= 0,
                 "{} ranks, stride {}, {} bytes", group.size, group.stride, bytes);
  if (group.size == 1) return 0;
  const Path path = path_of(group, cluster);
  const double steps = static_cast<double>(group.size - 1);
  const double pass = steps * path.latency_seconds +
                      steps / static_cast<double>(group.size) * bytes / path.bytes_per_second;
  switch (kind) {
    case Collective::kAllReduce:
      return 2 * pass;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return pass;
    case Collective::kAllToAll:
      return steps * path.latency_seconds + all_to_all_transfer(bytes, group, cluster);
    case Collective::kSendReceive:
      return path.latency_seconds + bytes / path.bytes_per_second;
  }
  return 0;
}

}  // namespace plimsoll
