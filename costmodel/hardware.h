// Devices and clusters: what the cost model and the planner know about hardware.
//
// The catalogue is data (hardware.toml, embedded in the binary); a cluster names one kind of device
// of it, or a TOML file that overrides its figures. Every value here is a rate or a size of ONE
// device; rates are in units a second, one direction for links. Efficiencies are the attainable
// part.
#pragma once

#include "base/dtype.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

struct Hardware {
  std::string id;      // "a100-80gb", the name on the command line
  std::string name;    // "NVIDIA A100 SXM4 80GB"
  std::string source;  // where the figures come from

  // Peak dense FLOP/s with fp32 accumulation, 0 for a type that the device does not have.
  double f32_flops = 0;
  double tf32_flops = 0;
  double bf16_flops = 0;
  double f16_flops = 0;
  double fp8_flops = 0;

  double vendor_memory_bytes = 0;  // 80e9 for an "80 GB" device
  double usable_memory_bytes = 0;  // what is free before any context; 0: the job must say
  double memory_bytes_per_second = 0;
  double link_bytes_per_second = 0;  // NVLink and the like, 0 for none
  double pcie_bytes_per_second = 0;
  double network_bytes_per_second = 0;
  int64_t link_devices = 1;      // how many devices a link joins
  int64_t devices_per_node = 8;  // where a cluster does not say
  bool shares_cores = false;     // a CPU device of this machine; see share_host

  double context_bytes = 0;       // driver, context and modules, outside the arena
  double communicator_bytes = 0;  // one communicator of more than one device, outside the arena

  double launch_seconds = 0;
  double link_latency_seconds = 0;     // one step of a ring inside a node
  double network_latency_seconds = 0;  // one step of a ring between nodes
  double matmul_efficiency = 1;
  double memory_efficiency = 1;
  double collective_efficiency = 1;

  // Bytes outside the arena with that many communicators of more than one device.
  [[nodiscard]] int64_t outside_bytes(int num_communicators) const;
  // usable_memory_bytes in whole bytes, 0 when the job must say.
  [[nodiscard]] int64_t memory_bytes() const;

  friend bool operator==(const Hardware&, const Hardware&) = default;
};

// Peak dense FLOP/s for a float type (f64 counts as half of f32). Throws Error (exit 2) naming the
// types that the device has, when it does not have this one.
[[nodiscard]] double peak_flops(const Hardware& hardware, DType dtype);

// The catalogue, in its file's order.
[[nodiscard]] const std::vector<Hardware>& all_hardware();

// The device of that id; throws Error (exit 2) with the nearest spelling when there is none.
[[nodiscard]] const Hardware& find_hardware(std::string_view id);

// One of `num_devices` CPU devices that divide a machine of `num_cores` between them: its rates are
// those of num_cores / num_devices cores, also below one. `hardware` is the catalogue's, with the
// rates of one core; one that does not share cores is returned as it is.
[[nodiscard]] Hardware share_host(Hardware hardware, int64_t num_devices, int64_t num_cores);

// Cores that this process may use, at least 1.
[[nodiscard]] int64_t host_cores();

}  // namespace plimsoll
