// Rows exchanged between the ranks of a group, and their gradients the other way. Without counts
// every rank sends equal parts; with counts (one a group of rows, in rank order on both sides) the
// parts vary and `row_bound` is the declared bound of the rows received: more than it is an error
// that names layer and rank.
#include "models/ops/rooms.h"

#include <algorithm>

namespace plimsoll {

namespace {

class AllToAll final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "all_to_all"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 3 && !c.inputs[0].shape.empty(),
              "all_to_all takes x and optional counts of rows sent and received");
    const TensorType& x = c.inputs[0];
    const bool counted = !c.inputs[1].shape.empty();
    c.require(c.inputs[1].shape == c.inputs[2].shape &&
                  (!counted || (c.inputs[1].dtype == DType::kI32 && c.inputs[1] == c.inputs[2])),
              "counts of rows sent and received are i32 of one shape, or both absent");
    TensorType y = x;
    if (counted) y.shape[0] = c.attributes.get_int("row_bound");
    return {{"", y, x.dtype == DType::kI32 ? Role::kStatistic : Role::kActivation}};
  }

  void forward(EmitContext& c) const override {
    c.call("all_to_all")
        .read(c.input(0))
        .read(c.input(1))
        .read(c.input(2))
        .write(c.output(0))
        .bytes_moved(bytes(c))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    CallBuilder call = c.call("all_to_all");
    call.read(c.gradient(0)).read(c.input(2)).read(c.input(1)).write_gradient(0, false);
    if (c.has_input(1)) call.attribute("row_bound", c.input_type(0).shape[0]);
    call.bytes_moved(bytes(c)).emit();
  }

 private:
  // What balanced routing sends: the bound on one side is that or more.
  static double bytes(const EmitContext& c) {
    return 2.0 * static_cast<double>(std::min(c.input_type(0).bytes(), c.output_type(0).bytes()));
  }
};

}  // namespace

std::unique_ptr<OpRule> make_all_to_all() { return std::make_unique<AllToAll>(); }

}  // namespace plimsoll
