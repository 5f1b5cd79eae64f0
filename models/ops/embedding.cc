// y[b, t] = table[token[b, t]]; backward sorts tokens by value in its workspace.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

// Rows a rank of a table that is worth sharding.
constexpr int64_t kMinRowsToShard = 16;

class Embedding final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "embedding"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 2, "embedding takes tokens and a table");
    const TensorType& tokens = c.inputs[0];
    const TensorType& table = c.inputs[1];
    c.require(tokens.dtype == DType::kI32 && !tokens.shape.empty() && table.shape.size() == 2,
              fmt::format("i32 tokens {} and a table [V, C], not {}", shape_text(tokens.shape),
                          shape_text(table.shape)));
    Shape y = tokens.shape;
    y.push_back(table.last());
    return {{"", {y, table.dtype}}};
  }

  void forward(EmitContext& c) const override {
    // Reads one row of the table a token, never the whole table.
    c.call("embedding")
        .read(c.input(0))
        .read(c.input(1))
        .write(c.output(0))
        .bytes_moved(static_cast<double>(c.input_type(0).bytes()) +
                     2.0 * static_cast<double>(c.output_type(0).bytes()))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    const int64_t sort_entries = checked_add(c.input_type(1).shape[0], c.input_type(0).elements());
    c.call("embedding.backward")
        .read(c.input(0))
        .read(c.gradient(0))
        .write_gradient(1, true)
        .workspace({{sort_entries}, DType::kI32})
        .flops(count_of(c.output_type(0)))
        .emit();
  }

  [[nodiscard]] std::vector<Sharding> shardings(const ShardingContext& c) const override {
    std::vector<Sharding> ways;
    // A rank looks up the tokens in its rows and leaves zeros elsewhere. Tables of a few rows
    // (segments) are not worth a reduction.
    if (c.inputs[1].shape[0] >= kMinRowsToShard * c.tp) {
      ways.push_back({.inputs = {{}, Layout::padded_shards(0)},
                      .outputs = {Layout::partial()},
                      .attributes = {{"tp", int64_t{c.tp}}}});
    }
    ways.push_back(c.replicated());
    return ways;
  }
};

}  // namespace

std::unique_ptr<OpRule> make_embedding() { return std::make_unique<Embedding>(); }

}  // namespace plimsoll
