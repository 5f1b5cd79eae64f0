#include "costmodel/hardware.h"

#include "base/error.h"
#include "base/spelling.h"
#include "costmodel/hardware_toml.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace plimsoll {

int64_t Hardware::outside_bytes(int num_communicators) const {
  return static_cast<int64_t>(context_bytes + communicator_bytes * num_communicators);
}

int64_t Hardware::memory_bytes() const { return static_cast<int64_t>(usable_memory_bytes); }

double peak_flops(const Hardware& hardware, DType dtype) {
  double flops = 0;
  switch (dtype) {
    case DType::kF64:
      flops = hardware.f32_flops / 2;
      break;
    case DType::kF32:
      flops = hardware.f32_flops;
      break;
    case DType::kBF16:
      flops = hardware.bf16_flops;
      break;
    case DType::kF16:
      flops = hardware.f16_flops;
      break;
    case DType::kI64:
    case DType::kI32:
    case DType::kU16:
    case DType::kU8:
      PLIMSOLL_CHECK(false, "{} is not a float type", dtype_name(dtype));
  }
  if (flops > 0) return flops;
  std::string types = "fp32";
  if (hardware.f16_flops > 0) types += ", fp16";
  if (hardware.bf16_flops > 0) types += ", bf16";
  throw bad_input(fmt::format("{} has no {} arithmetic", hardware.id, dtype_name(dtype)),
                  fmt::format("it computes in {}", types));
}

const std::vector<Hardware>& all_hardware() {
  static const std::vector<Hardware> catalogue =
      internal::parse_catalogue(internal::embedded_hardware_toml(), "costmodel/hardware.toml");
  return catalogue;
}

const Hardware& find_hardware(std::string_view id) {
  std::vector<std::string> known;
  for (const Hardware& hardware : all_hardware()) {
    if (hardware.id == id) return hardware;
    known.push_back(hardware.id);
  }
  throw bad_input(fmt::format("unknown hardware '{}'", id), did_you_mean(id, known));
}

Hardware share_host(Hardware hardware, int64_t num_devices, int64_t num_cores) {
  PLIMSOLL_CHECK(num_devices > 0 && num_cores > 0, "{} devices on {} cores", num_devices,
                 num_cores);
  if (!hardware.shares_cores) return hardware;
  const double cores = static_cast<double>(num_cores) / static_cast<double>(num_devices);
  for (double* rate :
       {&hardware.f32_flops, &hardware.tf32_flops, &hardware.bf16_flops, &hardware.f16_flops,
        &hardware.fp8_flops, &hardware.memory_bytes_per_second, &hardware.link_bytes_per_second}) {
    *rate *= cores;
  }
  return hardware;
}

int64_t host_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && CPU_COUNT(&allowed) > 0) {
    return CPU_COUNT(&allowed);
  }
  return std::max<int64_t>(1, std::thread::hardware_concurrency());
}

}  // namespace plimsoll
