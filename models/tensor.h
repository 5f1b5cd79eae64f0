// Tensors of a model graph: what they are, not where they live.
//
// Dimension letters as in the papers: B micro-batch, T sequence, C hidden, H heads, G key/value
// heads, D head size, F feed-forward, V vocabulary, L layers, N images, K reduction.
#pragma once

#include "base/checked.h"
#include "base/dtype.h"
#include "base/shape.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

struct TensorType {
  Shape shape;
  DType dtype = DType::kF32;

  [[nodiscard]] int64_t elements() const { return num_elements(shape); }
  [[nodiscard]] int64_t bytes() const { return checked_mul(elements(), dtype_bytes(dtype)); }
  [[nodiscard]] int64_t last() const { return shape.back(); }
  // Product of all extents but the last.
  [[nodiscard]] int64_t rows() const { return elements() / last(); }
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

enum class Role : uint8_t {
  kParameter,   // trained
  kState,       // kept across steps but not trained by gradients (running statistics)
  kInput,       // comes from the data set
  kActivation,  // computed in forward
  kStatistic,   // small by-product of forward kept for backward (means, log-sum-exps, masks)
  kGradient,    // of an activation
  kParameterGradient,
  kWorkspace,  // scratch of one kernel call
  kLoss,       // the f64 sum that is minimised
};

// How a parameter begins and what it is called outside. A fused parameter (a [q; k; v] projection)
// names the row ranges that are separate tensors in exported files.
struct ParameterPart {
  std::string name;         // "model.layers.0.self_attn.q_proj.weight"
  int64_t rows = 0;         // extent along dimension 0 of the parameter
  bool transposed = false;  // stored as (in, out) outside
};
struct ParameterInfo {
  enum class Init : uint8_t {
    kZero,
    kOne,
    kNormal,
    kUniform,
    kRunning,  // [2, C] running statistics: means (row 0) zero, variances (row 1) one
  };
  Init init = Init::kNormal;
  double scale = 0.02;  // standard deviation, or half width when uniform
  bool matrix = true;   // weight decay's usual target; false for norms and biases
  std::vector<ParameterPart> parts;
};

// What one rank of a tensor-parallel group holds of a parameter. Along `dimension` the whole tensor
// is a row of ranges; rank r holds of each the `local` entries from (r / copies) * local on, one
// range after the other.
struct ShardedRange {
  int64_t extent = 0;  // of the whole tensor
  int64_t local = 0;   // local * ranks / copies >= extent; what exceeds it is padding
  int copies = 1;      // neighbouring ranks that hold the same entries; their gradients add up
  friend bool operator==(const ShardedRange&, const ShardedRange&) = default;
};
struct ParameterShard {
  int tp = 1;
  int dimension = -1;  // -1: whole on every rank
  std::vector<ShardedRange> ranges;
  bool partial_gradient = false;  // each rank has a part of the gradient's sum over the group
  friend bool operator==(const ParameterShard&, const ParameterShard&) = default;
};

using TensorId = int;
inline constexpr TensorId kNoTensor = -1;

struct Tensor {
  std::string name;
  TensorType type;
  Role role = Role::kActivation;
  int layer = -1;                // block, -1 outside the blocks
  std::string op;                // kind of the op that makes or owns it
  std::string input_field;       // inputs: "tokens", "targets", "images", …
  TensorId view_of = kNoTensor;  // shares the bytes of another tensor
  std::optional<ParameterInfo> parameter;
  // Parameters of a rank's graph (models/shard.h); `parameter->parts` stay those of the whole one.
  std::optional<ParameterShard> shard = std::nullopt;
};

}  // namespace plimsoll
