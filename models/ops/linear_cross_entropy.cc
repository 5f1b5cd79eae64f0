// The head of a language model and its loss in chunks of rows: logits [R, V] never exist whole, at
// the price of computing them again in backward.
#include "models/ops/chunked_head.h"
#include "models/ops/rooms.h"

namespace plimsoll {

using namespace chunked_head;

namespace {

class LinearCrossEntropy final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "linear_cross_entropy"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 3, "linear_cross_entropy takes x, weight and targets");
    const TensorType& x = c.inputs[0];
    const TensorType& w = c.inputs[1];
    c.require(!x.shape.empty() && w.shape.size() == 2 && w.last() == x.last(),
              fmt::format("x {} does not fit weight {}", shape_text(x.shape), shape_text(w.shape)));
    c.require(c.inputs[2].dtype == DType::kI32 && c.inputs[2].elements() == x.rows(),
              fmt::format("x {} needs one i32 target a row, not {}", shape_text(x.shape),
                          shape_text(c.inputs[2].shape)));
    const int64_t chunks = c.attributes.get_int("chunks");
    c.require(chunks >= 1 && chunks <= x.rows(),
              fmt::format("chunks must be in [1, {}], not {}", x.rows(), chunks));
    const TensorType row{{x.rows()}, c.statistic_type};
    return {{"", {{1}, DType::kF64}, Role::kLoss},
            {"row_loss", row, Role::kStatistic},
            {"lse", row, Role::kStatistic}};
  }

  void forward(EmitContext& c) const override {
    const TensorType logits = chunk_of_logits(c);
    c.call("linear_cross_entropy")
        .read(c.input(0))
        .read(c.input(1))
        .read(c.input(2))
        .write(c.output(0))
        .write(c.output(1))
        .write(c.output(2))
        .workspace(logits)
        .flops(product_flops(c) + 4.0 * logits_elements(c))
        .bytes_moved(bytes(c, logits, 1))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    const TensorType logits = chunk_of_logits(c);
    c.call("linear_cross_entropy.backward")
        .read(c.input(0))
        .read(c.input(1))
        .read(c.input(2))
        .read(c.output(2))
        .read(c.scalars())
        .write_gradient(0, false)
        .write_gradient(1, true)
        .workspace(logits)
        .flops(3.0 * product_flops(c) + 5.0 * logits_elements(c))
        .bytes_moved(bytes(c, logits, 4))
        .emit();
  }

  [[nodiscard]] std::vector<Sharding> shardings(const ShardingContext& c) const override {
    return {{.inputs = {Layout::copied(), Layout::padded_shards(0), {}},
             .outputs = std::vector<Layout>(c.num_outputs),
             .attributes = {{"tp", int64_t{c.tp}}, {"vocabulary", c.inputs[1].shape[0]}},
             .local_kind = "vocab_linear_cross_entropy"},
            c.replicated()};
  }
};

}  // namespace

std::unique_ptr<OpRule> make_linear_cross_entropy() {
  return std::make_unique<LinearCrossEntropy>();
}

}  // namespace plimsoll
