// How long a collective takes on the devices of a cluster.
#pragma once

#include "costmodel/cluster.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll {

enum class Collective : uint8_t { kAllReduce, kAllGather, kReduceScatter, kSendReceive, kAllToAll };

// The collective that an instruction of that name is ("all_reduce", "all_gather", "reduce_scatter",
// "send", "receive", "all_to_all"); empty for anything else.
[[nodiscard]] std::optional<Collective> find_collective(std::string_view op);

// `size` ranks that are `stride` ranks apart. Ranks fill the cluster's nodes in order.
struct CollectiveGroup {
  int64_t size = 1;
  int64_t stride = 1;
  friend bool operator==(const CollectiveGroup&, const CollectiveGroup&) = default;
};

// Seconds from the last rank's arrival to the end. `bytes` is the whole tensor's: of the operand of
// an all-reduce, of the gathered result, of the operand that is scattered, of the message sent;
// of an all-to-all, what one rank has to distribute (its own part stays).
class CollectiveTimeModel {
 public:
  virtual ~CollectiveTimeModel() = default;
  [[nodiscard]] virtual double collective_seconds(Collective kind, double bytes,
                                                  const CollectiveGroup& group,
                                                  const Cluster& cluster) const = 0;
};

// Alpha-beta model of ring algorithms (Thakur, Rabenseifner, Gropp 2005, "Optimization of
// collective communication operations in MPICH", section 4), with n ranks, latency a and bandwidth
// b:
//     all-reduce       2 (n - 1) a + 2 (n - 1) / n * bytes / b
//     all-gather and reduce-scatter   (n - 1) a + (n - 1) / n * bytes / b
//     send and receive                a + bytes / b
//     all-to-all       (n - 1) a + the longer of (m - 1) / n * bytes / link (to the m - 1 others of
//                      its node) and (n - m) / n * bytes / network (through the rank's own port)
// Inside a node a and b are those of the link (PCIe where the link does not join the group). Over
// nodes a is the network's, and b the lesser of the link's and of the network's of all members that
// a node has, since each device has a network port.
class RingTime final : public CollectiveTimeModel {
 public:
  [[nodiscard]] double collective_seconds(Collective kind, double bytes,
                                          const CollectiveGroup& group,
                                          const Cluster& cluster) const override;
};

}  // namespace plimsoll
