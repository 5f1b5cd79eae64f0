// y = x Phi(x), exactly ("erf") or by the tanh form of Hendrycks and Gimpel 2016 ("tanh").
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class Gelu final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "gelu"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 1, "gelu takes one tensor");
    const std::string& form = c.attributes.get_string("approximate");
    c.require(form == "tanh" || form == "erf", "gelu's form is tanh or erf, not " + form);
    return {{"", c.inputs[0]}};
  }

  void forward(EmitContext& c) const override {
    c.call("gelu")
        .read(c.input(0))
        .write(c.output(0))
        .in_place(0, 0)
        .flops(10.0 * static_cast<double>(c.output_type(0).elements()))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    c.call("gelu.backward")
        .read(c.gradient(0))
        .read(c.input(0))
        .write_gradient(0, false)
        .in_place(0, 0)
        .flops(16.0 * static_cast<double>(c.output_type(0).elements()))
        .emit();
  }

  [[nodiscard]] std::vector<Sharding> shardings(const ShardingContext& c) const override {
    return elementwise_shardings(c);
  }
};

}  // namespace

std::unique_ptr<OpRule> make_gelu() { return std::make_unique<Gelu>(); }

}  // namespace plimsoll
