#include "costmodel/cluster.h"

#include "base/error.h"
#include "base/files.h"
#include "base/spelling.h"
#include "costmodel/hardware_toml.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace plimsoll {

namespace {

constexpr std::string_view kForms =
    "write GPUSxNAME (8xa100-80gb), NODESxGPUSxNAME (2x8xh100-sxm, 1x2xcpu) or a .toml file";

// Takes "<digits>x" off the front of `text`; empty, and nothing taken, when it is not there.
std::optional<int64_t> take_count(std::string_view& text, std::string_view whole) {
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  if (digits == 0 || digits == text.size() || text[digits] != 'x') return std::nullopt;
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, count);
  if (error != std::errc{} || count > kMaxDevices) {
    throw bad_input(fmt::format("cluster '{}': {} is too many (at most {})", whole,
                                text.substr(0, digits), kMaxDevices));
  }
  if (count < 1) throw bad_input(fmt::format("cluster '{}': a count must be at least 1", whole));
  text.remove_prefix(digits + 1);
  return count;
}

// Devices a node when only their number is given: as few equal nodes as possible.
int64_t fill_nodes(int64_t devices, int64_t per_node) {
  for (int64_t size = std::min(devices, per_node); size > 1; --size) {
    if (devices % size == 0) return size;
  }
  return 1;
}

Cluster make_cluster(std::string_view text, int64_t nodes, int64_t devices_per_node,
                     const Hardware& device) {
  // Both are at most kMaxDevices, so the product cannot overflow.
  if (nodes * devices_per_node > kMaxDevices) {
    throw bad_input(fmt::format("cluster '{}': {} devices are too many (at most {})", text,
                                nodes * devices_per_node, kMaxDevices));
  }
  return {std::string(text), nodes, devices_per_node,
          share_host(device, devices_per_node, host_cores())};
}

int64_t read_count(const toml::table& table, std::string_view key, std::string_view file) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return 1;
  const auto count = node->value_exact<int64_t>();
  if (!count || *count < 1 || *count > kMaxDevices) {
    throw bad_input(fmt::format("{}: {} must be a whole number from 1 to {}",
                                internal::toml_place(*node, file), key, kMaxDevices));
  }
  return *count;
}

}  // namespace

Cluster parse_cluster_toml(std::string_view bytes, std::string_view file) {
  const toml::table root = internal::parse_toml(bytes, file);
  const std::vector<std::string> keys = {"device", "nodes", "devices_per_node", "figures"};
  for (const auto& [key, node] : root) {
    if (std::find(keys.begin(), keys.end(), key.str()) == keys.end()) {
      const bool misplaced = internal::is_hardware_key(key.str());
      throw bad_input(
          fmt::format("{}: unknown key '{}'", internal::toml_place(node, file), key.str()),
          misplaced ? "figures of the device go below the line [figures]"
                    : did_you_mean(key.str(), keys));
    }
  }
  const toml::node* id = root.get("device");
  if (id == nullptr || !id->is_string()) {
    throw bad_input(
        fmt::format("{}: device must name the kind of device, e.g. \"a100-80gb\"",
                    id == nullptr ? std::string(file) : internal::toml_place(*id, file)));
  }
  Hardware device;
  try {
    device = find_hardware(id->value_or(std::string_view{}));
  } catch (const Error& error) {
    throw bad_input(fmt::format("{}: {}", internal::toml_place(*id, file), error.what()),
                    error.hint());
  }
  if (const toml::node* figures = root.get("figures")) {
    if (!figures->is_table()) {
      throw bad_input(
          fmt::format("{}: figures must be a table", internal::toml_place(*figures, file)));
    }
    internal::apply_hardware_table(*figures->as_table(), file, device);
  }
  return make_cluster(file, read_count(root, "nodes", file),
                      read_count(root, "devices_per_node", file), device);
}

Cluster parse_cluster(std::string_view text) {
  constexpr std::string_view kSuffix = ".toml";
  if (text.size() > kSuffix.size() && text.substr(text.size() - kSuffix.size()) == kSuffix) {
    constexpr int64_t kLargestFile = 1 << 20;
    return parse_cluster_toml(read_file(std::string(text), kLargestFile), text);
  }
  std::string_view rest = text;
  const std::optional<int64_t> first = take_count(rest, text);
  if (!first) {
    throw bad_input(fmt::format("cluster '{}' does not begin with a number of devices", text),
                    std::string(kForms));
  }
  const std::optional<int64_t> second = take_count(rest, text);
  if (rest.empty()) {
    throw bad_input(fmt::format("cluster '{}' names no device", text), std::string(kForms));
  }
  const Hardware& device = find_hardware(rest);
  if (second) return make_cluster(text, *first, *second, device);
  const int64_t per_node = fill_nodes(*first, device.devices_per_node);
  return make_cluster(text, *first / per_node, per_node, device);
}

}  // namespace plimsoll
