// y = x W^T + b, x [R, K], W [N, K], b [N] (may be absent).
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class Linear final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "linear"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 3, "linear takes x, weight and an optional bias");
    const TensorType& x = c.inputs[0];
    const TensorType& w = c.inputs[1];
    const TensorType& bias = c.inputs[2];
    c.require(w.shape.size() == 2 && !x.shape.empty() && x.last() == w.last(),
              fmt::format("x {} does not fit weight {}", shape_text(x.shape), shape_text(w.shape)));
    c.require(
        bias.shape.empty() || bias.shape == Shape{w.shape[0]},
        fmt::format("bias {} does not fit weight {}", shape_text(bias.shape), shape_text(w.shape)));
    Shape y = x.shape;
    y.back() = w.shape[0];
    return {{"", {y, x.dtype}}};
  }

  void forward(EmitContext& c) const override {
    c.call("linear")
        .read(c.input(0))
        .read(c.input(1))
        .read(c.input(2))
        .write(c.output(0))
        .flops(product_flops(c))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    const TensorId dy = c.gradient(0);
    if (c.needs_gradient(0)) {
      c.call("linear.backward_input")
          .read(dy)
          .read(c.input(1))
          .write_gradient(0, true)
          .flops(product_flops(c))
          .emit();
    }
    if (c.needs_gradient(1)) {
      c.call("linear.backward_weight")
          .read(c.input(0))
          .read(dy)
          .write_gradient(1, true)
          .write_gradient(2, true)
          .flops(product_flops(c))
          .weight_part()
          .emit();
    }
  }

  [[nodiscard]] std::vector<Sharding> shardings(const ShardingContext& c) const override {
    const int last = static_cast<int>(c.inputs[0].shape.size()) - 1;
    std::vector<Sharding> ways;
    if (c.wanted) {  // columns: every rank computes some of the output's features
      Layout rows = *c.wanted;
      rows.dimension = 0;
      ways.push_back({.inputs = {Layout::copied(), rows, rows}, .outputs = {*c.wanted}});
    }
    // Rows: every rank sums over some of the input's features.
    ways.push_back({.inputs = {Layout::sharded(last), Layout::sharded(1), {}},
                    .outputs = {Layout::partial()},
                    .added_after = c.inputs[2].shape.empty() ? -1 : 2});
    for (Sharding& way : row_shardings(c)) ways.push_back(std::move(way));
    return ways;
  }

 private:
  static double product_flops(const EmitContext& c) {
    return 2.0 * static_cast<double>(c.output_type(0).elements()) *
           static_cast<double>(c.input_type(1).last());
  }
};

}  // namespace

std::unique_ptr<OpRule> make_linear() { return std::make_unique<Linear>(); }

}  // namespace plimsoll
