// y[b, t] = x[b, t] + table[t]; the gradient of x is dy itself.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class PositionEmbedding final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "position_embedding"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 2, "position_embedding takes x and a table");
    const TensorType& x = c.inputs[0];
    const TensorType& table = c.inputs[1];
    c.require(x.shape.size() == 3 && table.shape.size() == 2 && table.last() == x.last(),
              fmt::format("x [B, T, C] and a table [M, C], not {} and {}", shape_text(x.shape),
                          shape_text(table.shape)));
    c.require(table.shape[0] >= x.shape[1],
              fmt::format("{} tokens need as many positions, the table has {}", x.shape[1],
                          table.shape[0]));
    return {{"", x}};
  }

  void forward(EmitContext& c) const override {
    const TensorType& x = c.output_type(0);
    const double table_bytes = static_cast<double>(x.shape[1] * x.shape[2] * dtype_bytes(x.dtype));
    c.call("position_embedding")
        .read(c.input(0))
        .read(c.input(1))
        .write(c.output(0))
        .in_place(0, 0)
        .flops(count_of(x))
        .bytes_moved(2.0 * static_cast<double>(x.bytes()) + table_bytes)
        .emit();
  }

  void backward(BackwardContext& c) const override {
    if (c.needs_gradient(1)) {
      c.call("position_embedding.backward")
          .read(c.gradient(0))
          .write_gradient(1, true)
          .flops(count_of(c.output_type(0)))
          .emit();
    }
    c.pass_gradient(0);
  }

  [[nodiscard]] std::vector<Sharding> shardings(const ShardingContext& c) const override {
    std::vector<Sharding> ways = row_shardings(c);
    // The rank's tokens meet rows of the table that begin at its place in the sequence.
    if (ways.size() > 1) ways.front().attributes.set("tp", c.tp);
    return ways;
  }
};

}  // namespace

std::unique_ptr<OpRule> make_position_embedding() { return std::make_unique<PositionEmbedding>(); }

}  // namespace plimsoll
