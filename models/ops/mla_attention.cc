// Multi-head latent attention over up-projected keys and values (DeepSeek-V2, §2.1): each head's
// key is its own N dimensions and P that all heads share, its value has V. The key is never laid
// out whole: a kernel reads both parts. Forms, saved tensors and the count over the full square are
// those of `attention`.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class MlaAttention final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "mla_attention"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 3 && c.inputs[0].shape.size() == 3,
              "mla_attention takes q [B, T, H*(N+P)], kv [B, T, H*(N+V)] and a key part [B, T, P]");
    const Shape& q = c.inputs[0].shape;
    const int64_t heads = c.attributes.get_int("heads");
    const int64_t nope = c.attributes.get_int("nope_dim");
    const int64_t rope = c.attributes.get_int("rope_dim");
    const int64_t value = c.attributes.get_int("value_dim");
    c.require(heads > 0 && nope > 0 && rope > 0 && value > 0,
              "heads and their sizes must be positive");
    const auto require_width = [&](size_t input, const char* name, int64_t width) {
      const Shape expected{q[0], q[1], width};
      c.require(c.inputs[input].shape == expected,
                fmt::format("{} must be {}, not {}", name, shape_text(expected),
                            shape_text(c.inputs[input].shape)));
    };
    require_width(0, "q", checked_mul(heads, checked_add(nope, rope)));
    require_width(1, "kv", checked_mul(heads, checked_add(nope, value)));
    require_width(2, "the shared key part", rope);
    const std::string& form = c.attributes.get_string("form");
    c.require(form == "flash" || form == "naive",
              "attention's form is flash or naive, not " + form);
    const double p = c.attributes.get_double("dropout");
    c.require(p >= 0 && p < 1, fmt::format("the dropout probability must be in [0, 1), not {}", p));
    c.require(c.training || p == 0, "dropout belongs to training alone");
    return outputs(c, {q[0], q[1], checked_mul(heads, value)}, heads, form == "flash", p > 0);
  }

  void forward(EmitContext& c) const override {
    CallBuilder call = c.call("mla_attention").read(c.input(0)).read(c.input(1)).read(c.input(2));
    for (const TensorId id : c.op().outputs) call.write(id);
    call.flops(key_flops(c) + value_flops(c)).emit();
  }

  void backward(BackwardContext& c) const override {
    const bool flash = c.op().attributes.get_string("form") == "flash";
    CallBuilder call = c.call("mla_attention.backward").read(c.gradient(0));
    for (size_t i = 0; i < 3; ++i) call.read(c.input(i));
    for (const TensorId id : c.op().outputs) call.read(id);
    for (size_t i = 0; i < 3; ++i) call.write_gradient(i, false);
    const Shape& o = c.output_type(0).shape;
    const int64_t heads = c.op().attributes.get_int("heads");
    call.workspace(flash ? TensorType{{o[0], heads, o[1]}, c.graph().statistic_type()}
                         : TensorType{{o[0], heads, o[1], o[1]}, c.output_type(0).dtype});
    // dv and dp by the values' size, dq and dk by the keys'; flash computes the scores once more.
    call.flops((flash ? 3.0 : 2.0) * key_flops(c) + 2.0 * value_flops(c)).emit();
  }

 private:
  static std::vector<OutputSpec> outputs(const InferContext& c, const Shape& o, int64_t heads,
                                         bool flash, bool drops) {
    const DType dtype = c.inputs[0].dtype;
    std::vector<OutputSpec> specs{{"", {o, dtype}}};
    if (flash) {
      specs.push_back({"lse", {{o[0], heads, o[1]}, c.statistic_type}, Role::kStatistic});
      return specs;
    }
    const Shape square{o[0], heads, o[1], o[1]};
    specs.push_back({"probs", {square, dtype}});
    if (drops && c.save_rules.store_softmax_dropout) {
      specs.push_back({"mask", {square, DType::kU8}, Role::kStatistic});
      specs.push_back({"dropped", {square, dtype}});
    }
    return specs;
  }
  // Of one product of all heads' [T, N+P] by its transpose, and of [T, T] by [T, V].
  static double key_flops(const EmitContext& c) {
    return 2.0 * count_of(c.input_type(0)) * static_cast<double>(c.input_type(0).shape[1]);
  }
  static double value_flops(const EmitContext& c) {
    return 2.0 * count_of(c.output_type(0)) * static_cast<double>(c.output_type(0).shape[1]);
  }
};

}  // namespace

std::unique_ptr<OpRule> make_mla_attention() { return std::make_unique<MlaAttention>(); }

}  // namespace plimsoll
