#include "base/error.h"
#include "models/op_rule.h"
#include "models/ops/rooms.h"

#include <map>

namespace plimsoll {

namespace {

using Registry = std::map<std::string_view, std::unique_ptr<OpRule>>;

Registry make_registry() {
  Registry registry;
  const auto add = [&](std::unique_ptr<OpRule> rule) {
    const std::string_view kind = rule->kind();
    registry.emplace(kind, std::move(rule));
  };
  add(make_all_to_all());
  add(make_attention());
  add(make_batch_norm());
  add(make_bias_add());
  add(make_conv2d());
  add(make_cross_entropy());
  add(make_dropout());
  add(make_embedding());
  add(make_flatten());
  add(make_gelu());
  add(make_global_avg_pool());
  add(make_image_to_tokens());
  add(make_layer_norm());
  add(make_linear());
  add(make_linear_cross_entropy());
  add(make_max_pool2d());
  add(make_mla_attention());
  add(make_mla_rope());
  add(make_moe_combine());
  add(make_moe_dispatch());
  add(make_moe_expert_linear());
  add(make_moe_router());
  add(make_mse());
  add(make_position_embedding());
  add(make_prepend_token());
  add(make_qk_norm());
  add(make_relu());
  add(make_residual());
  add(make_rms_norm());
  add(make_rope());
  add(make_select_token());
  add(make_split_columns());
  add(make_sp_collect());
  add(make_sp_gather());
  add(make_sp_scatter());
  add(make_sp_slice());
  add(make_swiglu());
  add(make_tp_copy());
  add(make_tp_reduce());
  add(make_vocab_cross_entropy());
  add(make_vocab_linear_cross_entropy());
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
