// Rotary positions of multi-head latent attention (DeepSeek-V2, §2.1.3): only the last P of each
// query head's N+P dimensions are rotated, and one key part [B, T, P] that all heads share.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class MlaRope final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "mla_rope"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(
        c.inputs.size() == 2 && c.inputs[0].shape.size() == 3 && c.inputs[1].shape.size() == 3,
        "mla_rope takes q [B, T, H*(N+P)] and the shared key part [B, T, P]");
    const Shape& q = c.inputs[0].shape;
    const int64_t heads = c.attributes.get_int("heads");
    const int64_t nope = c.attributes.get_int("nope_dim");
    const int64_t rope = c.attributes.get_int("rope_dim");
    c.require(heads > 0 && nope > 0 && rope > 0, "heads and their sizes must be positive");
    c.require(rope % 2 == 0, fmt::format("the rotated size {} must be even", rope));
    c.require(q[2] == checked_mul(heads, checked_add(nope, rope)),
              fmt::format("q is {} wide, {} heads of {}+{} need {}", q[2], heads, nope, rope,
                          heads * (nope + rope)));
    c.require(c.inputs[1].shape == Shape{q[0], q[1], rope},
              fmt::format("the shared key part must be {}, not {}", shape_text({q[0], q[1], rope}),
                          shape_text(c.inputs[1].shape)));
    c.require(c.attributes.get_double("theta") > 0, "theta must be positive");
    return {{"", c.inputs[0]}, {"key", c.inputs[1]}};
  }

  void forward(EmitContext& c) const override {
    c.call("mla_rope")
        .read(c.input(0))
        .read(c.input(1))
        .write(c.output(0))
        .write(c.output(1))
        .in_place(0, 0)
        .in_place(1, 1)
        .flops(3.0 * rotated(c))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    c.call("mla_rope.backward")
        .read(c.gradient(0))
        .read(c.gradient(1))
        .write_gradient(0, false)
        .write_gradient(1, false)
        .in_place(0, 0)
        .in_place(1, 1)
        .flops(3.0 * rotated(c))
        .emit();
  }

 private:
  static double rotated(const EmitContext& c) {
    return count_of(c.output_type(1)) *
           (1.0 + static_cast<double>(c.op().attributes.get_int("heads")));
  }
};

}  // namespace

std::unique_ptr<OpRule> make_mla_rope() { return std::make_unique<MlaRope>(); }

}  // namespace plimsoll
