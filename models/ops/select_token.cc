// y[b] = x[b, index].
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class SelectToken final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "select_token"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 1 && c.inputs[0].shape.size() == 3,
              "select_token takes x [B, T, C]");
    const TensorType& x = c.inputs[0];
    const int64_t index = c.attributes.get_int("index");
    c.require(index >= 0 && index < x.shape[1],
              fmt::format("index {} is outside {} tokens", index, x.shape[1]));
    return {{"", {{x.shape[0], x.shape[2]}, x.dtype}}};
  }

  void forward(EmitContext& c) const override {
    c.call("select_token")
        .read(c.input(0))
        .write(c.output(0))
        .bytes_moved(2.0 * static_cast<double>(c.output_type(0).bytes()))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    c.call("select_token.backward").read(c.gradient(0)).write_gradient(0, false).emit();
  }
};

}  // namespace

std::unique_ptr<OpRule> make_select_token() { return std::make_unique<SelectToken>(); }

}  // namespace plimsoll
