#include "costmodel/hardware_toml.h"

#include "base/error.h"
#include "base/spelling.h"

#include <algorithm>
#include <array>

namespace plimsoll::internal {

namespace {

constexpr double kGib = 0x1p30;
constexpr double kMib = 0x1p20;
constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
constexpr double kMicro = 1e-6;
// No figure of a device comes near this in its own unit, and none overflows below it.
constexpr double kLargestNumber = 1e6;

struct NumberField {
  std::string_view key;
  double Hardware::*member;
  double unit;
  bool may_be_zero;
};

constexpr std::array kNumberFields = {
    NumberField{"f32_tflops", &Hardware::f32_flops, kTera, false},
    NumberField{"tf32_tflops", &Hardware::tf32_flops, kTera, true},
    NumberField{"bf16_tflops", &Hardware::bf16_flops, kTera, true},
    NumberField{"f16_tflops", &Hardware::f16_flops, kTera, true},
    NumberField{"fp8_tflops", &Hardware::fp8_flops, kTera, true},
    NumberField{"memory_gb", &Hardware::vendor_memory_bytes, kGiga, true},
    NumberField{"usable_gib", &Hardware::usable_memory_bytes, kGib, true},
    NumberField{"memory_gb_s", &Hardware::memory_bytes_per_second, kGiga, false},
    NumberField{"link_gb_s", &Hardware::link_bytes_per_second, kGiga, true},
    NumberField{"pcie_gb_s", &Hardware::pcie_bytes_per_second, kGiga, false},
    NumberField{"network_gb_s", &Hardware::network_bytes_per_second, kGiga, false},
    NumberField{"context_mib", &Hardware::context_bytes, kMib, true},
    NumberField{"communicator_mib", &Hardware::communicator_bytes, kMib, true},
    NumberField{"launch_us", &Hardware::launch_seconds, kMicro, true},
    NumberField{"link_latency_us", &Hardware::link_latency_seconds, kMicro, true},
    NumberField{"network_latency_us", &Hardware::network_latency_seconds, kMicro, true},
};

struct FractionField {
  std::string_view key;
  double Hardware::*member;
};

constexpr std::array kFractionFields = {
    FractionField{"matmul_efficiency", &Hardware::matmul_efficiency},
    FractionField{"memory_efficiency", &Hardware::memory_efficiency},
    FractionField{"collective_efficiency", &Hardware::collective_efficiency},
};

struct CountField {
  std::string_view key;
  int64_t Hardware::*member;
};

constexpr std::array kCountFields = {
    CountField{"link_devices", &Hardware::link_devices},
    CountField{"devices_per_node", &Hardware::devices_per_node},
};

struct WordField {
  std::string_view key;
  std::string Hardware::*member;
};

constexpr std::array kWordFields = {
    WordField{"name", &Hardware::name},
    WordField{"source", &Hardware::source},
};

constexpr std::string_view kSharesCores = "shares_cores";

template <typename Fields>
const typename Fields::value_type* find_field(const Fields& fields, std::string_view key) {
  const auto at = std::find_if(fields.begin(), fields.end(),
                               [&](const auto& field) { return field.key == key; });
  return at == fields.end() ? nullptr : &*at;
}

std::vector<std::string> hardware_keys() {
  std::vector<std::string> keys{std::string(kSharesCores)};
  for (const auto& field : kNumberFields) keys.emplace_back(field.key);
  for (const auto& field : kFractionFields) keys.emplace_back(field.key);
  for (const auto& field : kCountFields) keys.emplace_back(field.key);
  for (const auto& field : kWordFields) keys.emplace_back(field.key);
  return keys;
}

void apply_entry(std::string_view key, const toml::node& node, std::string_view file,
                 Hardware& hardware) {
  if (const auto* number = find_field(kNumberFields, key)) {
    const double value = read_number(node, key, file);
    if (value < 0 || value > kLargestNumber || (value == 0 && !number->may_be_zero)) {
      throw bad_input(
          fmt::format("{}: {} must be {}", toml_place(node, file), key,
                      number->may_be_zero ? "from 0 to 1e6" : "above 0 and at most 1e6"));
    }
    hardware.*(number->member) = value * number->unit;
  } else if (const auto* fraction = find_field(kFractionFields, key)) {
    hardware.*(fraction->member) = read_fraction(node, key, file);
  } else if (const auto* count = find_field(kCountFields, key)) {
    hardware.*(count->member) = read_whole(node, key, 1, 1 << 20, file);
  } else if (const auto* word = find_field(kWordFields, key)) {
    hardware.*(word->member) = read_word(node, key, file);
  } else if (key == kSharesCores) {
    hardware.shares_cores = read_flag(node, key, file);
  } else {
    throw bad_input(fmt::format("{}: unknown key '{}'", toml_place(node, file), key),
                    did_you_mean(key, hardware_keys()));
  }
}

// Figures without which nothing can be timed.
void check_complete(const Hardware& hardware, std::string_view place) {
  const auto require = [&](double value, std::string_view key) {
    if (value <= 0) {
      throw bad_input(fmt::format("{}: [{}] lacks {}", place, hardware.id, key));
    }
  };
  require(hardware.f32_flops, "f32_tflops");
  require(hardware.memory_bytes_per_second, "memory_gb_s");
  require(hardware.pcie_bytes_per_second, "pcie_gb_s");
  require(hardware.network_bytes_per_second, "network_gb_s");
}

}  // namespace

bool is_hardware_key(std::string_view key) {
  return find_field(kNumberFields, key) != nullptr || find_field(kFractionFields, key) != nullptr ||
         find_field(kCountFields, key) != nullptr || find_field(kWordFields, key) != nullptr ||
         key == kSharesCores;
}

void apply_hardware_table(const toml::table& table, std::string_view file, Hardware& hardware) {
  for (const auto& [key, node] : table) apply_entry(key.str(), node, file, hardware);
}

std::vector<Hardware> parse_catalogue(std::string_view text, std::string_view file) {
  const toml::table root = parse_toml(text, file);
  std::vector<std::pair<toml::source_position, Hardware>> found;
  Hardware defaults;
  if (const auto* table = root["defaults"].as_table()) apply_hardware_table(*table, file, defaults);
  for (const auto& [key, node] : root) {
    if (key.str() == "defaults") continue;
    const auto* table = node.as_table();
    if (table == nullptr) {
      throw bad_input(fmt::format("{}: '{}' must be a table, as in [h100-sxm]",
                                  toml_place(node, file), key.str()));
    }
    Hardware hardware = defaults;
    hardware.id = key.str();
    apply_hardware_table(*table, file, hardware);
    check_complete(hardware, toml_place(node, file));
    found.emplace_back(node.source().begin, std::move(hardware));
  }
  // toml++ sorts by key; a catalogue reads in its file's order.
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first.line < b.first.line; });
  std::vector<Hardware> catalogue;
  catalogue.reserve(found.size());
  for (auto& [position, hardware] : found) catalogue.push_back(std::move(hardware));
  return catalogue;
}

}  // namespace plimsoll::internal
