// The rooms' makers: one function an op, listed once in registry.cc.
#pragma once

#include "base/error.h"
#include "models/op_rule.h"

#include <memory>

namespace plimsoll {

[[nodiscard]] std::unique_ptr<OpRule> make_all_to_all();
[[nodiscard]] std::unique_ptr<OpRule> make_attention();
[[nodiscard]] std::unique_ptr<OpRule> make_batch_norm();
[[nodiscard]] std::unique_ptr<OpRule> make_bias_add();
[[nodiscard]] std::unique_ptr<OpRule> make_conv2d();
[[nodiscard]] std::unique_ptr<OpRule> make_cross_entropy();
[[nodiscard]] std::unique_ptr<OpRule> make_dropout();
[[nodiscard]] std::unique_ptr<OpRule> make_embedding();
[[nodiscard]] std::unique_ptr<OpRule> make_flatten();
[[nodiscard]] std::unique_ptr<OpRule> make_gelu();
[[nodiscard]] std::unique_ptr<OpRule> make_global_avg_pool();
[[nodiscard]] std::unique_ptr<OpRule> make_image_to_tokens();
[[nodiscard]] std::unique_ptr<OpRule> make_layer_norm();
[[nodiscard]] std::unique_ptr<OpRule> make_linear();
[[nodiscard]] std::unique_ptr<OpRule> make_linear_cross_entropy();
[[nodiscard]] std::unique_ptr<OpRule> make_max_pool2d();
[[nodiscard]] std::unique_ptr<OpRule> make_mla_attention();
[[nodiscard]] std::unique_ptr<OpRule> make_mla_rope();
[[nodiscard]] std::unique_ptr<OpRule> make_moe_combine();
[[nodiscard]] std::unique_ptr<OpRule> make_moe_dispatch();
[[nodiscard]] std::unique_ptr<OpRule> make_moe_expert_linear();
[[nodiscard]] std::unique_ptr<OpRule> make_moe_router();
[[nodiscard]] std::unique_ptr<OpRule> make_mse();
[[nodiscard]] std::unique_ptr<OpRule> make_position_embedding();
[[nodiscard]] std::unique_ptr<OpRule> make_prepend_token();
[[nodiscard]] std::unique_ptr<OpRule> make_qk_norm();
[[nodiscard]] std::unique_ptr<OpRule> make_relu();
[[nodiscard]] std::unique_ptr<OpRule> make_residual();
[[nodiscard]] std::unique_ptr<OpRule> make_rms_norm();
[[nodiscard]] std::unique_ptr<OpRule> make_rope();
[[nodiscard]] std::unique_ptr<OpRule> make_select_token();
[[nodiscard]] std::unique_ptr<OpRule> make_split_columns();
[[nodiscard]] std::unique_ptr<OpRule> make_sp_collect();
[[nodiscard]] std::unique_ptr<OpRule> make_sp_gather();
[[nodiscard]] std::unique_ptr<OpRule> make_sp_scatter();
[[nodiscard]] std::unique_ptr<OpRule> make_sp_slice();
[[nodiscard]] std::unique_ptr<OpRule> make_swiglu();
[[nodiscard]] std::unique_ptr<OpRule> make_tp_copy();
[[nodiscard]] std::unique_ptr<OpRule> make_tp_reduce();
[[nodiscard]] std::unique_ptr<OpRule> make_vocab_cross_entropy();
[[nodiscard]] std::unique_ptr<OpRule> make_vocab_linear_cross_entropy();

// What ops that work on each element alone share: sharded along the last dimension where that is
// wanted, along the sequence, or replicated. Not on partial sums, which are no values yet.
[[nodiscard]] std::vector<Sharding> elementwise_shardings(const ShardingContext& context);
// What ops on packed [q; k; v] heads share: whole heads of each part on every rank. Outputs are
// taken to be sharded along the last (packed heads) or second (per-head results) dimension.
[[nodiscard]] Sharding head_sharding(const ShardingContext& context);
// What ops on rows share: sharded along the sequence, parameters whole with partial gradients, or
// replicated.
[[nodiscard]] std::vector<Sharding> row_shardings(const ShardingContext& context);

// What the window ops share: extent of the output of a window of `kernel` that moves by `stride`
// over `extent` padded on both sides; 0 or less when the window does not fit.
[[nodiscard]] constexpr int64_t window_output(int64_t extent, int64_t kernel, int64_t stride,
                                              int64_t padding) {
  const int64_t room = extent + 2 * padding - kernel;
  return room < 0 ? 0 : room / stride + 1;
}

// Bounds on attributes of windows that keep the arithmetic above far from overflow.
inline constexpr int64_t kMaxWindow = 1 << 20;

[[nodiscard]] inline double count_of(const TensorType& type) {
  return static_cast<double>(type.elements());
}

}  // namespace plimsoll
