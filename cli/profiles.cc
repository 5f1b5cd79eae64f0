// plimsoll profiles [NAME]: the frameworks that plans can be made for, or one with all it assumes.
#include "base/files.h"
#include "cli/context.h"
#include "costmodel/profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace plimsoll::cli {

namespace {

using nlohmann::ordered_json;

ordered_json describe(const StateTypes& states) {
  return {{"gradients", dtype_name(states.gradients)},
          {"master_weights", states.master_weights},
          {"moments", dtype_name(states.moments)}};
}

ordered_json describe(const std::optional<double>& efficiency) {
  return efficiency ? ordered_json(*efficiency) : ordered_json(nullptr);
}

ordered_json describe(const Profile& p) {
  ordered_json out{{"name", p.name}, {"title", p.title}, {"source", p.source}};
  out["attention"] = p.attention;
  out["selective_ops"] = p.selective_ops;
  out["save"] = {{"dropout_mask", p.save_rules.store_dropout_mask},
                 {"softmax_dropout", p.save_rules.store_softmax_dropout}};
  out["states"] = {{"half", describe(p.half)}, {"single", describe(p.single)}};
  out["bytes_per_parameter"] = {{"half", bytes_per_parameter(p, DType::kBF16).total()},
                                {"single", bytes_per_parameter(p, DType::kF32).total()}};
  out["gradient_buffers"] = {
      {"contiguous", p.gradient_buffers.contiguous},
      {"bucket_elements", p.gradient_buffers.bucket_elements},
      {"alignment_elements", p.gradient_buffers.alignment_elements},
      {"sharded_multiple_elements", p.gradient_buffers.sharded_multiple_elements}};
  out["runs"] = {{"parallel", p.runs.parallel},
                 {"sequence_parallel", p.runs.sequence_parallel},
                 {"zero", p.runs.zero},
                 {"recompute", p.runs.recompute},
                 {"mixed_recompute", p.runs.mixed_recompute},
                 {"schedules", p.runs.schedules},
                 {"offload", p.runs.offload}};
  // null: the device's own
  out["efficiencies"] = {{"matmul", describe(p.matmul_efficiency)},
                         {"memory", describe(p.memory_efficiency)},
                         {"collective", describe(p.collective_efficiency)}};
  return out;
}

void print_all() {
  fmt::print("{:<12} {:<22} {:>12} {:>10}  {}\n", "profile", "framework", "bytes/param",
             "attention", "runs");
  for (const Profile& p : all_profiles()) {
    fmt::print("{:<12} {:<22} {:>12} {:>10}  {} · ZeRO {} · recompute {}\n", p.name, p.title,
               bytes_per_parameter(p, DType::kBF16).total(), p.attention,
               fmt::join(p.runs.parallel, " "), fmt::join(p.runs.zero, " "),
               fmt::join(p.runs.recompute, " "));
  }
}

// "states.half.gradients  f32"; lists in a line.
void print_facts(const ordered_json& value, const std::string& path) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) {
      print_facts(inner, path.empty() ? key : path + "." + key);
    }
    return;
  }
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (value.is_null()) text = "the device's own";
  if (value.is_array()) {
    text.clear();
    for (const auto& item : value) {
      text +=
          (text.empty() ? "" : " ") + (item.is_string() ? item.get<std::string>() : item.dump());
    }
    if (text.empty()) text = "-";
  }
  fmt::print("{:>42}  {}\n", path, text);
}

}  // namespace

void add_profiles(CLI::App& app, Context& context) {
  (void)context;
  CLI::App* command = app.add_subcommand(
      "profiles",
      "list the frameworks that plans can be made for, or show what one keeps and runs");
  auto name = std::make_shared<std::string>();
  auto json = std::make_shared<std::string>();
  command->add_option("NAME", *name, "a profile's name");
  command->add_option("--json", *json, "write JSON to this file, - for stdout");
  command->footer("Example:\n  plimsoll profiles megatron");
  command->callback([name, json] {
    ordered_json out = ordered_json::array();
    if (!name->empty()) {
      out = describe(find_profile(*name));
      if (json->empty()) return print_facts(out, "");
    } else {
      if (json->empty()) return print_all();
      for (const Profile& profile : all_profiles()) out.push_back(describe(profile));
    }
    write_file(*json, out.dump(2) + "\n");
  });
}

}  // namespace plimsoll::cli
