// Cross-entropy of logits whose columns are divided over the tensor-parallel ranks (Shoeybi et al.
// 2019, section 3): the largest logit of a row and the sum of its exponentials are reduced over the
// ranks, after which each has the loss of all rows and the gradient of its columns.
#include "models/ops/collective.h"
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class VocabCrossEntropy final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "vocab_cross_entropy"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 2, "vocab_cross_entropy takes logits and targets");
    const TensorType& logits = c.inputs[0];
    c.require(!logits.shape.empty() && c.inputs[1].dtype == DType::kI32 &&
                  c.inputs[1].elements() == logits.rows(),
              fmt::format("logits {} need one i32 target a row, not {}", shape_text(logits.shape),
                          shape_text(c.inputs[1].shape)));
    const TensorType row{{logits.rows()}, c.statistic_type};
    const TensorType pair{{2, logits.rows()}, c.statistic_type};
    return {{"", {{1}, DType::kF64}, Role::kLoss}, {"row_loss", row, Role::kStatistic},
            {"lse", row, Role::kStatistic},        {"local_max", row, Role::kStatistic},
            {"row_max", row, Role::kStatistic},    {"local_sums", pair, Role::kStatistic},
            {"sums", pair, Role::kStatistic}};
  }

  void forward(EmitContext& c) const override {
    const double elements = count_of(c.input_type(0));
    c.call("vocab_cross_entropy.max")
        .read(c.input(0))
        .write(c.output(kLocalMax))
        .flops(elements)
        .emit();
    all_reduce(c, c.output(kLocalMax))
        .write(c.output(kMax))
        .continuing(c.output(kLocalMax))
        .attribute("reduction", "max")
        .emit();
    c.call("vocab_cross_entropy.sums")
        .read(c.input(0))
        .read(c.input(1))
        .read(c.output(kMax))
        .write(c.output(kLocalSums))
        .flops(3.0 * elements)
        .emit();
    all_reduce(c, c.output(kLocalSums))
        .write(c.output(kSums))
        .continuing(c.output(kLocalSums))
        .emit();
    emit_vocab_loss(c, c.input(1), c.output(kMax), c.output(kSums));
  }

  void backward(BackwardContext& c) const override {
    c.call("vocab_cross_entropy.backward")
        .read(c.input(0))
        .read(c.input(1))
        .read(c.output(2))
        .read(c.scalars())
        .write_gradient(0, false)
        .in_place(0, 0)
        .flops(3.0 * count_of(c.input_type(0)))
        .emit();
  }

 private:
  static constexpr size_t kLocalMax = 3, kMax = 4, kLocalSums = 5, kSums = 6;
};

}  // namespace

std::unique_ptr<OpRule> make_vocab_cross_entropy() { return std::make_unique<VocabCrossEntropy>(); }

}  // namespace plimsoll
