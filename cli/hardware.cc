// plimsoll hardware [NAME]: the hardware catalogue, or one device with its sources.
#include "costmodel/hardware.h"

#include "base/files.h"
#include "base/units.h"
#include "cli/context.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace plimsoll::cli {

namespace {

nlohmann::ordered_json describe(const Hardware& h) {
  return {{"id", h.id},
          {"name", h.name},
          {"bf16_flops", h.bf16_flops},
          {"f16_flops", h.f16_flops},
          {"tf32_flops", h.tf32_flops},
          {"f32_flops", h.f32_flops},
          {"memory_bytes", h.memory_bytes()},
          {"memory_bytes_per_second", h.memory_bytes_per_second},
          {"link_bytes_per_second", h.link_bytes_per_second},
          {"pcie_bytes_per_second", h.pcie_bytes_per_second},
          {"network_bytes_per_second", h.network_bytes_per_second},
          {"context_bytes", h.context_bytes},
          {"communicator_bytes", h.communicator_bytes},
          {"matmul_efficiency", h.matmul_efficiency},
          {"memory_efficiency", h.memory_efficiency},
          {"collective_efficiency", h.collective_efficiency},
          {"source", h.source}};
}

std::string tera(double flops) { return flops > 0 ? fmt::format("{:.4g}", flops / 1e12) : "-"; }

void print_all() {
  fmt::print("{:<12} {:>12} {:>12} {:>9} {:>11} {:>10}\n", "device", "bf16 TFLOP/s", "fp32 TFLOP/s",
             "GiB free", "memory GB/s", "link GB/s");
  for (const Hardware& h : all_hardware()) {
    fmt::print(
        "{:<12} {:>12} {:>12} {:>9} {:>11.5g} {:>10.4g}\n", h.id, tera(h.bf16_flops),
        tera(h.f32_flops),
        h.memory_bytes() > 0 ? fmt::format("{:.1f}", h.usable_memory_bytes * 0x1p-30) : "host",
        h.memory_bytes_per_second / 1e9, h.link_bytes_per_second / 1e9);
  }
}

void print_one(const Hardware& h) {
  for (const auto& [key, value] : describe(h).items()) {
    fmt::print(
        "{:>24}  {}\n", key,
        value.is_string() ? value.get<std::string>() : fmt::format("{:.6g}", value.get<double>()));
  }
}

}  // namespace

void add_hardware(CLI::App& app, Context& context) {
  (void)context;
  CLI::App* command =
      app.add_subcommand("hardware", "list the hardware catalogue, or show a device");
  auto name = std::make_shared<std::string>();
  auto json = std::make_shared<std::string>();
  command->add_option("NAME", *name, "a device's id");
  command->add_option("--json", *json, "write JSON to this file, - for stdout");
  command->footer("Example:\n  plimsoll hardware h100-sxm");
  command->callback([name, json] {
    nlohmann::ordered_json out;
    if (!name->empty()) {
      const Hardware& hardware = find_hardware(*name);
      if (json->empty()) return print_one(hardware);
      out = describe(hardware);
    } else {
      if (json->empty()) return print_all();
      for (const Hardware& hardware : all_hardware()) out.push_back(describe(hardware));
    }
    write_file(*json, out.dump(2) + "\n");
  });
}

}  // namespace plimsoll::cli
