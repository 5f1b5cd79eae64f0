// Copies each token to the rows of its chosen experts, experts in ascending order and tokens in
// theirs. Dropless (capacity 0): R*k rows, an expert's rows begin at the sum of the counts before
// it. With a capacity: E*capacity rows, an expert's begin at capacity times its number; what
// exceeds it is dropped (position -1) and what is not filled is zero (GShard, Switch).
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class MoeDispatch final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "moe_dispatch"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 2, "moe_dispatch takes x and the indices of the chosen experts");
    const TensorType& x = c.inputs[0];
    const TensorType& indices = c.inputs[1];
    c.require(x.shape.size() == 3 && indices.shape.size() == 3 && indices.dtype == DType::kI32 &&
                  indices.shape[0] == x.shape[0] && indices.shape[1] == x.shape[1],
              fmt::format("x [B, T, C] and i32 indices [B, T, k], not {} and {}",
                          shape_text(x.shape), shape_text(indices.shape)));
    const int64_t experts = c.attributes.get_int("experts");
    const int64_t capacity = c.attributes.get_int("capacity");
    c.require(experts > 0 && indices.last() <= experts,
              fmt::format("{} of {} experts cannot be chosen", indices.last(), experts));
    c.require(capacity >= 0 && capacity <= x.rows(),
              fmt::format("the capacity must be in [0, {}] tokens, not {}", x.rows(), capacity));
    const int64_t rows = capacity > 0 ? checked_mul(experts, capacity) : indices.elements();
    return {{"", {{rows, x.last()}, x.dtype}},
            {"position", {indices.shape, DType::kI32}, Role::kStatistic},
            {"counts", {{experts}, DType::kI32}, Role::kStatistic}};
  }

  void forward(EmitContext& c) const override {
    c.call("moe_dispatch")
        .read(c.input(0))
        .read(c.input(1))
        .write(c.output(0))
        .write(c.output(1))
        .write(c.output(2))
        .workspace({{c.op().attributes.get_int("experts")}, DType::kI32})
        .bytes_moved(2.0 * static_cast<double>(c.output_type(0).bytes()) +
                     2.0 * static_cast<double>(c.input_type(1).bytes()))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    // Each token gathers the gradients of its k rows.
    c.call("moe_dispatch.backward")
        .read(c.gradient(0))
        .read(c.output(1))
        .write_gradient(0, true)
        .flops(count_of(c.input_type(1)) * static_cast<double>(c.input_type(0).last()))
        .emit();
  }
};

}  // namespace

std::unique_ptr<OpRule> make_moe_dispatch() { return std::make_unique<MoeDispatch>(); }

}  // namespace plimsoll
