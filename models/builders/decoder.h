// Parts of decoder blocks: each takes the normed input [B, T, C] and returns what is added to the
// residual stream. `prefix` ends in a dot and begins the names of parameters and ops.
#pragma once

#include "models/builders/builder.h"

#include <string>

namespace plimsoll {

// down(silu(gate(x)) * up(x)).
[[nodiscard]] TensorId gated_feed_forward(Builder& b, const std::string& prefix, TensorId x,
                                          int64_t width);
// Router, experts and shared experts of a block with prefix "model.layers.3.".
[[nodiscard]] TensorId expert_layer(Builder& b, const std::string& block, TensorId x);
[[nodiscard]] TensorId latent_attention(Builder& b, const std::string& prefix, TensorId x);

// Rows and bounds of an expert layer for one micro-batch of `tokens` rows a rank.
struct ExpertRows {
  int64_t local_experts = 0;  // of one rank
  int64_t capacity = 0;       // rows an expert takes from one rank, 0 when dropless
  int64_t dispatched = 0;     // rows that leave the dispatch of one rank
  int64_t bound = 0;          // rows that its experts hold at most
  int64_t routed = 0;         // rows that its experts get when routing is balanced
};
[[nodiscard]] ExpertRows expert_rows(const ExpertSpec& experts, const BuildOptions& options,
                                     int64_t tokens);

}  // namespace plimsoll
