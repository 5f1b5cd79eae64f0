// The first columns of each row and the rest, as two tensors: both may then be kept or let go
// apart.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class SplitColumns final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "split_columns"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 1 && !c.inputs[0].shape.empty(), "split_columns takes one tensor");
    const TensorType& x = c.inputs[0];
    const int64_t columns = c.attributes.get_int("columns");
    c.require(columns > 0 && columns < x.last(),
              fmt::format("{} of {} columns leave nothing on one side", columns, x.last()));
    TensorType left = x;
    left.shape.back() = columns;
    TensorType right = x;
    right.shape.back() -= columns;
    return {{"", left}, {"rest", right}};
  }

  void forward(EmitContext& c) const override {
    c.call("split_columns").read(c.input(0)).write(c.output(0)).write(c.output(1)).emit();
  }

  void backward(BackwardContext& c) const override {
    c.call("split_columns.backward")
        .read(c.gradient(0))
        .read(c.gradient(1))
        .write_gradient(0, false)
        .emit();
  }
};

}  // namespace

std::unique_ptr<OpRule> make_split_columns() { return std::make_unique<SplitColumns>(); }

}  // namespace plimsoll
