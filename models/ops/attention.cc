// Scaled dot-product attention over a packed [q heads; k heads; v heads], grouped-query when there
// are fewer key/value heads. The flash form (Dao et al. 2022) saves a log-sum-exp a row and
// computes the probabilities again in backward; the naive form saves the probabilities [B, H, T,
// T]. Products are counted over the full square, also when causal.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class Attention final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "attention"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 1 && c.inputs[0].shape.size() == 3,
              "attention takes qkv [B, T, (H+2G)*D]");
    const TensorType& qkv = c.inputs[0];
    const int64_t heads = c.attributes.get_int("heads");
    const int64_t kv_heads = c.attributes.get_int("kv_heads");
    const int64_t head_dim = c.attributes.get_int("head_dim");
    c.require(heads > 0 && kv_heads > 0 && head_dim > 0, "heads and their size must be positive");
    c.require(heads % kv_heads == 0,
              fmt::format("{} query heads cannot share {} key/value heads", heads, kv_heads));
    const int64_t width = checked_mul(checked_add(heads, checked_mul(2, kv_heads)), head_dim);
    c.require(qkv.last() == width,
              fmt::format("qkv is {} wide, {} query and {} key/value heads of {} need {}",
                          qkv.last(), heads, kv_heads, head_dim, width));
    const std::string& form = c.attributes.get_string("form");
    c.require(form == "flash" || form == "naive",
              "attention's form is flash or naive, not " + form);
    const double p = c.attributes.get_double("dropout");
    c.require(p >= 0 && p < 1, fmt::format("the dropout probability must be in [0, 1), not {}", p));
    c.require(c.training || p == 0, "dropout belongs to training alone");
    return outputs(c, {qkv.shape[0], qkv.shape[1], checked_mul(heads, head_dim)}, heads,
                   form == "flash", p > 0);
  }

  void forward(EmitContext& c) const override {
    CallBuilder call = c.call("attention").read(c.input(0));
    for (const TensorId id : c.op().outputs) call.write(id);
    call.flops(2.0 * product_flops(c)).emit();
  }

  void backward(BackwardContext& c) const override {
    const TensorType& o = c.output_type(0);
    const bool flash = is_flash(c);
    CallBuilder call =
        c.call("attention.backward").read(c.gradient(0)).read(c.input(0)).read(c.output(0));
    for (size_t i = 1; i < c.op().outputs.size(); ++i) call.read(c.output(i));
    call.write_gradient(0, false);
    const int64_t heads = c.op().attributes.get_int("heads");
    const Shape rows{o.shape[0], heads, o.shape[1]};
    const Shape square{o.shape[0], heads, o.shape[1], o.shape[1]};
    call.workspace(flash ? TensorType{rows, c.graph().statistic_type()}
                         : TensorType{square, o.dtype});
    // Naive: dv, dp, dq, dk. Flash computes the scores once more.
    call.flops((flash ? 5.0 : 4.0) * product_flops(c)).emit();
  }

  [[nodiscard]] std::vector<Sharding> shardings(const ShardingContext& c) const override {
    std::vector<Sharding> ways;
    if (c.wanted) {
      ways.push_back(head_sharding(c));
      // Dropout draws for the heads of the whole op.
      if (c.attributes.get_double("dropout") > 0) ways.back().attributes.set("tp", c.tp);
    }
    ways.push_back(c.replicated());
    return ways;
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
  static bool is_flash(const EmitContext& c) {
    return c.op().attributes.get_string("form") == "flash";
  }
  // Of one product [T, D] x [D, T] over all heads.
  static double product_flops(const EmitContext& c) {
    const TensorType& o = c.output_type(0);
    return 2.0 * count_of(o) * static_cast<double>(o.shape[1]);
  }
};

}  // namespace

std::unique_ptr<OpRule> make_attention() { return std::make_unique<Attention>(); }

}  // namespace plimsoll
