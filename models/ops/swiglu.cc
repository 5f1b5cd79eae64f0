// y = up * silu(gate) of a packed [gate; up] (Shazeer 2020).
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class Swiglu final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "swiglu"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 1 && !c.inputs[0].shape.empty() && c.inputs[0].last() % 2 == 0,
              "swiglu takes a packed [gate; up] tensor of even width");
    Shape y = c.inputs[0].shape;
    y.back() /= 2;
    return {{"", {y, c.inputs[0].dtype}}};
  }

  void forward(EmitContext& c) const override {
    c.call("swiglu")
        .read(c.input(0))
        .write(c.output(0))
        .flops(6.0 * count_of(c.output_type(0)))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    c.call("swiglu.backward")
        .read(c.gradient(0))
        .read(c.input(0))
        .write_gradient(0, false)
        .in_place(0, 1)
        .flops(14.0 * count_of(c.output_type(0)))
        .emit();
  }

  [[nodiscard]] std::vector<Sharding> shardings(const ShardingContext& c) const override {
    std::vector<Sharding> ways;
    const int last = static_cast<int>(c.inputs[0].shape.size()) - 1;
    if (c.wanted) {
      Layout halves = Layout::sharded(last);
      const int64_t width = c.inputs[0].last() / 2;
      halves.segments.assign(2, {.extent = width, .pieces = width, .of = "features"});
      ways.push_back({.inputs = {halves}, .outputs = {*c.wanted}});
    }
    for (Sharding& way : row_shardings(c)) ways.push_back(std::move(way));
    return ways;
  }
};

}  // namespace

std::unique_ptr<OpRule> make_swiglu() { return std::make_unique<Swiglu>(); }

}  // namespace plimsoll
