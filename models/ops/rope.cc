// Rotary position embedding (Su et al. 2021) of the query and key heads of a packed [q; k; v]
// tensor, pairing dimensions d and d + D/2; rotation is linear, so backward needs no saved tensor.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class Rope final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "rope"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 1 && c.inputs[0].shape.size() == 3,
              "rope takes qkv [B, T, (H+2G)*D]");
    const int64_t heads = c.attributes.get_int("heads");
    const int64_t kv_heads = c.attributes.get_int("kv_heads");
    const int64_t head_dim = c.attributes.get_int("head_dim");
    c.require(heads > 0 && kv_heads > 0 && head_dim > 0, "heads and their size must be positive");
    c.require(head_dim % 2 == 0, fmt::format("head size {} must be even", head_dim));
    const int64_t width = checked_mul(checked_add(heads, checked_mul(2, kv_heads)), head_dim);
    c.require(c.inputs[0].last() == width,
              fmt::format("qkv is {} wide, {} query and {} key/value heads of {} need {}",
                          c.inputs[0].last(), heads, kv_heads, head_dim, width));
    c.require(c.attributes.get_double("theta") > 0, "theta must be positive");
    return {{"", c.inputs[0]}};
  }

  void forward(EmitContext& c) const override {
    c.call("rope")
        .read(c.input(0))
        .write(c.output(0))
        .in_place(0, 0)
        .flops(3.0 * count_of(c.output_type(0)))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    c.call("rope.backward")
        .read(c.gradient(0))
        .write_gradient(0, false)
        .in_place(0, 0)
        .flops(3.0 * count_of(c.output_type(0)))
        .emit();
  }

  [[nodiscard]] std::vector<Sharding> shardings(const ShardingContext& c) const override {
    std::vector<Sharding> ways;
    if (c.wanted) {
      ways.push_back(head_sharding(c));
      ways.back().outputs = ways.back().inputs;
    }
    ways.push_back(c.replicated());
    return ways;
  }
};

}  // namespace

std::unique_ptr<OpRule> make_rope() { return std::make_unique<Rope>(); }

}  // namespace plimsoll
