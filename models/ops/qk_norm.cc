// RMS norm of each query and key head of a packed [q; k; v] over its head size, one weight for all
// query heads and one for all key heads (Qwen3); values are copied. Saves rstd of each head.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class QkNorm final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "qk_norm"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 3 && c.inputs[0].shape.size() == 3,
              "qk_norm takes qkv [B, T, (H+2G)*D] and the weights of queries and keys");
    const Shape& qkv = c.inputs[0].shape;
    const int64_t heads = c.attributes.get_int("heads");
    const int64_t kv_heads = c.attributes.get_int("kv_heads");
    const int64_t head_dim = c.attributes.get_int("head_dim");
    c.require(heads > 0 && kv_heads > 0 && head_dim > 0, "heads and their size must be positive");
    const int64_t width = checked_mul(checked_add(heads, checked_mul(2, kv_heads)), head_dim);
    c.require(qkv[2] == width,
              fmt::format("qkv is {} wide, {} query and {} key/value heads of {} need {}", qkv[2],
                          heads, kv_heads, head_dim, width));
    c.require(c.inputs[1].shape == Shape{head_dim} && c.inputs[2].shape == Shape{head_dim},
              fmt::format("weights must be [{}]", head_dim));
    return {{"", c.inputs[0]},
            {"rstd", {{qkv[0], qkv[1], heads + kv_heads}, c.statistic_type}, Role::kStatistic}};
  }

  void forward(EmitContext& c) const override {
    c.call("qk_norm")
        .read(c.input(0))
        .read(c.input(1))
        .read(c.input(2))
        .write(c.output(0))
        .write(c.output(1))
        .flops(5.0 * count_of(c.output_type(0)))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    c.call("qk_norm.backward")
        .read(c.gradient(0))
        .read(c.input(0))
        .read(c.input(1))
        .read(c.input(2))
        .read(c.output(1))
        .write_gradient(0, false)
        .write_gradient(1, true)
        .write_gradient(2, true)
        .flops(10.0 * count_of(c.output_type(0)))
        .emit();
  }
};

}  // namespace

std::unique_ptr<OpRule> make_qk_norm() { return std::make_unique<QkNorm>(); }

}  // namespace plimsoll
