// y = x W_e^T for the rows of each expert e: a grouped matrix product. The weights of E experts lie
// below one another, [E*N, K], so that each expert's part is a row range. Rows come in groups, one
// a count, group g of expert g mod E: after an exchange over expert-parallel ranks each source rank
// has its own run of groups, so nothing is sorted again. FLOPs count the rows that routing makes
// (`routed_rows`), not the bound that the buffer has.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class MoeExpertLinear final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "moe_expert_linear"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 3, "moe_expert_linear takes x, weights and counts");
    const TensorType& x = c.inputs[0];
    const TensorType& w = c.inputs[1];
    const TensorType& counts = c.inputs[2];
    const int64_t experts = c.attributes.get_int("experts");
    const int64_t capacity = c.attributes.get_int("capacity");
    const int64_t routed = c.attributes.get_int("routed_rows");
    c.require(experts > 0, fmt::format("the experts must be positive, not {}", experts));
    c.require(x.shape.size() == 2 && w.shape.size() == 2 && x.last() == w.last() &&
                  w.shape[0] % experts == 0,
              fmt::format("x {} does not fit the weights {} of {} experts", shape_text(x.shape),
                          shape_text(w.shape), experts));
    c.require(
        counts.shape.size() == 1 && counts.dtype == DType::kI32 && counts.shape[0] % experts == 0,
        fmt::format("i32 counts of groups over {} experts, not {}", experts,
                    shape_text(counts.shape)));
    c.require(capacity == 0 || checked_mul(capacity, counts.shape[0]) == x.shape[0],
              fmt::format("{} groups of {} rows do not make up {}", counts.shape[0], capacity,
                          shape_text(x.shape)));
    c.require(routed > 0 && routed <= x.shape[0],
              fmt::format("{} rows are routed into {}", routed, x.shape[0]));
    return {{"", {{x.shape[0], w.shape[0] / experts}, x.dtype}}};
  }

  void forward(EmitContext& c) const override {
    c.call("moe_expert_linear")
        .read(c.input(0))
        .read(c.input(1))
        .read(c.input(2))
        .write(c.output(0))
        .flops(product_flops(c))
        .bytes_moved(bytes(c))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    const TensorId dy = c.gradient(0);
    if (c.needs_gradient(0)) {
      c.call("moe_expert_linear.backward_input")
          .read(dy)
          .read(c.input(1))
          .read(c.input(2))
          .write_gradient(0, true)
          .flops(product_flops(c))
          .bytes_moved(bytes(c))
          .emit();
    }
    if (c.needs_gradient(1)) {
      c.call("moe_expert_linear.backward_weight")
          .read(c.input(0))
          .read(dy)
          .read(c.input(2))
          .write_gradient(1, true)
          .flops(product_flops(c))
          .bytes_moved(bytes(c))
          .weight_part()
          .emit();
    }
  }

 private:
  static double routed_rows(const EmitContext& c) {
    return static_cast<double>(c.op().attributes.get_int("routed_rows"));
  }
  static double product_flops(const EmitContext& c) {
    return 2.0 * routed_rows(c) * static_cast<double>(c.input_type(0).last()) *
           static_cast<double>(c.output_type(0).last());
  }
  static double bytes(const EmitContext& c) {
    const auto width = static_cast<double>(c.input_type(0).last() + c.output_type(0).last());
    return static_cast<double>(c.input_type(1).bytes()) +
           routed_rows(c) * width * static_cast<double>(dtype_bytes(c.output_type(0).dtype));
  }
};

}  // namespace

std::unique_ptr<OpRule> make_moe_expert_linear() { return std::make_unique<MoeExpertLinear>(); }

}  // namespace plimsoll
