// A cluster: nodes of equal devices. Ranks fill one node after the other.
#pragma once

#include "costmodel/hardware.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

struct Cluster {
  std::string text;  // as the user wrote it, for reports and plans
  int64_t nodes = 1;
  int64_t devices_per_node = 1;
  Hardware device;  // of CPU devices: with its share of this machine's cores

  [[nodiscard]] int64_t num_devices() const { return nodes * devices_per_node; }
  friend bool operator==(const Cluster&, const Cluster&) = default;
};

// No cluster is larger; sizes above are a slip of the finger.
inline constexpr int64_t kMaxDevices = int64_t{1} << 20;

// Reads `GPUSxNAME` ("8xa100-80gb"), `NODESxGPUSxNAME` ("2x8xh100-sxm", "2xcpu"), or the path of a
// TOML file (ends in ".toml"; docs/add_hardware.md). Without a number of nodes, devices fill as few
// equal nodes as the catalogue's size of a node allows (12 GPUs are 2 nodes of 6). Throws Error
// (exit 2) on anything else, with the nearest spelling of an unknown name.
[[nodiscard]] Cluster parse_cluster(std::string_view text);

// The same from the bytes of a cluster file; `file` is its name in errors.
[[nodiscard]] Cluster parse_cluster_toml(std::string_view bytes, std::string_view file);

}  // namespace plimsoll
