#include <map>

#include "base/error.h"
#include "models/op_rule.h"
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

using Registry = std::map<std::string_view, std::unique_ptr<OpRule>>;

Registry make_registry() {
  Registry registry;
  const auto add = [&](std::unique_ptr<OpRule> rule) {
    const std::string_view kind = rule->kind();
    registry.emplace(kind, std::move(rule));
  };
  add(make_cross_entropy());
  add(make_gelu());
  add(make_layer_norm());
  add(make_linear());
  add(make_residual());
  return registry;
}

const Registry& registry() {
  static const Registry all = make_registry();
  return all;
}

}  // namespace

const OpRule& find_op_rule(std::string_view kind) {
  const auto at = registry().find(kind);
  if (at == registry().end()) throw bad_input(fmt::format("unknown op '{}'", kind));
  return *at->second;
}

std::vector<std::string_view> op_kinds() {
  std::vector<std::string_view> kinds;
  for (const auto& [kind, rule] : registry()) kinds.push_back(kind);
  return kinds;
}

}  // namespace plimsoll
