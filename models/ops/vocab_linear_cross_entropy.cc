// The head of a language model and its loss in chunks of rows, the vocabulary divided over the
// tensor-parallel ranks. Each rank goes through its logits once with its own largest logit a row,
// then the ranks agree on the largest of all and rescale.
#include "models/ops/chunked_head.h"
#include "models/ops/collective.h"
#include "models/ops/rooms.h"

namespace plimsoll {

using namespace chunked_head;

namespace {

class VocabLinearCrossEntropy final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "vocab_linear_cross_entropy"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 3, "vocab_linear_cross_entropy takes x, weight and targets");
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
    const TensorType pair{{2, x.rows()}, c.statistic_type};
    return {{"", {{1}, DType::kF64}, Role::kLoss},  {"row_loss", row, Role::kStatistic},
            {"lse", row, Role::kStatistic},         {"local_max", row, Role::kStatistic},
            {"copied_max", row, Role::kStatistic},  {"row_max", row, Role::kStatistic},
            {"local_sums", pair, Role::kStatistic}, {"rescaled_sums", pair, Role::kStatistic},
            {"sums", pair, Role::kStatistic}};
  }

  void forward(EmitContext& c) const override {
    const TensorType logits = chunk_of_logits(c);
    c.call("vocab_linear_cross_entropy.local")
        .read(c.input(0))
        .read(c.input(1))
        .read(c.input(2))
        .write(c.output(kLocalMax))
        .write(c.output(kLocalSums))
        .workspace(logits)
        .flops(product_flops(c) + 4.0 * logits_elements(c))
        .bytes_moved(bytes(c, logits, 1))
        .emit();
    c.call("copy").no_attributes().read(c.output(kLocalMax)).write(c.output(kCopiedMax)).emit();
    all_reduce(c, c.output(kCopiedMax))
        .write(c.output(kMax))
        .continuing(c.output(kCopiedMax))
        .attribute("reduction", "max")
        .emit();
    c.call("vocab_linear_cross_entropy.rescale")
        .no_attributes()
        .read(c.output(kLocalSums))
        .read(c.output(kLocalMax))
        .read(c.output(kMax))
        .write(c.output(kRescaledSums))
        .in_place(0, 0)
        .flops(2.0 * count_of(c.output_type(kSums)))
        .emit();
    all_reduce(c, c.output(kRescaledSums))
        .write(c.output(kSums))
        .continuing(c.output(kRescaledSums))
        .emit();
    emit_vocab_loss(c, c.input(2), c.output(kMax), c.output(kSums));
  }

  void backward(BackwardContext& c) const override {
    const TensorType logits = chunk_of_logits(c);
    c.call("vocab_linear_cross_entropy.backward")
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

 private:
  static constexpr size_t kLocalMax = 3, kCopiedMax = 4, kMax = 5;
  static constexpr size_t kLocalSums = 6, kRescaledSums = 7, kSums = 8;
};

}  // namespace

std::unique_ptr<OpRule> make_vocab_linear_cross_entropy() {
  return std::make_unique<VocabLinearCrossEntropy>();
}

}  // namespace plimsoll
