// How a tensor lies over the ranks of a tensor-parallel group, and the ways in which an op may be
// divided over them.
//
// A value and its gradient are dual: where the value is sharded so is the gradient; where the value
// is a partial sum the gradient is whole on every rank, and where every rank merely reads a whole
// value (kCopied) each has only its part of the gradient's sum.
#pragma once

#include "base/attributes.h"
#include "models/tensor.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// A range of the sharded dimension that is divided for itself: q, k and v of a fused projection.
struct ShardSegment {
  int64_t extent = 0;    // of the whole tensor
  int64_t pieces = 1;    // what must not be cut: heads
  bool repeats = false;  // fewer pieces than ranks: each is held by ranks / pieces ranks
  std::string_view of;   // for errors: "key/value heads"
  friend bool operator==(const ShardSegment&, const ShardSegment&) = default;
};

struct Layout {
  enum class Kind : uint8_t {
    kReplicated,  // value and gradient whole and equal on every rank
    kSharded,     // along `dimension`
    kPartial,     // the sum over the ranks is the value; the gradient is whole
    kCopied,      // the value is whole; the sum over the ranks is the gradient
  };
  Kind kind = Kind::kReplicated;
  int dimension = -1;
  std::vector<ShardSegment> segments;  // empty: the dimension as one, cut anywhere
  bool padded = false;                 // shares are rounded up, the last is filled with padding

  [[nodiscard]] static Layout replicated() { return {}; }
  [[nodiscard]] static Layout sharded(int dimension) {
    return {Kind::kSharded, dimension, {}, false};
  }
  [[nodiscard]] static Layout padded_shards(int dimension) {
    return {Kind::kSharded, dimension, {}, true};
  }
  [[nodiscard]] static Layout partial() { return {Kind::kPartial, -1, {}, false}; }
  [[nodiscard]] static Layout copied() { return {Kind::kCopied, -1, {}, false}; }
  [[nodiscard]] bool is_sharded(int along) const {
    return kind == Kind::kSharded && dimension == along;
  }
  friend bool operator==(const Layout&, const Layout&) = default;
};

// One legal way to divide an op: layouts of its operands and results.
struct Sharding {
  std::vector<Layout> inputs, outputs;
  Attributes attributes = {};   // of the local op, over those of the whole one
  std::string local_kind = {};  // when another op computes it
  // An input (a bias) that must enter once: it is left out and added by `bias_add` when the sum of
  // output 0 is whole.
  int added_after = -1;
};

struct ShardingContext {
  const Attributes& attributes;
  std::span<const TensorType> inputs;  // of the whole op; empty shape for an absent operand
  size_t num_outputs;
  int tp;
  bool sequence;  // sequence parallelism is wanted: activations [B, T, C] may be sharded along T
  // The layout, sharded along the last dimension, in which all users of output 0 take it.
  const std::optional<Layout>& wanted;
  std::string_view op_name;

  // Every operand and result in one layout each.
  [[nodiscard]] Sharding uniform(Layout activations, Layout parameters) const;
  [[nodiscard]] Sharding replicated() const { return uniform({}, {}); }
  // Whether input 0 is [B, T, C] and may be sharded along T.
  [[nodiscard]] bool has_sequence() const { return sequence && inputs[0].shape.size() == 3; }
};

// The dimension of tokens in [B, T, C].
inline constexpr int kSequenceDimension = 1;

// Throws Error (exit 2) "op_name: …" when the segment cannot be divided over `tp` ranks.
[[nodiscard]] ShardedRange divide(const ShardSegment& segment, int tp, bool padded,
                                  std::string_view op_name);

}  // namespace plimsoll
