// Two-dimensional convolution by im2col of one image at a time, which is its workspace.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class Conv2d final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "conv2d"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 3, "conv2d takes x, weight and an optional bias");
    const Shape& x = c.inputs[0].shape;
    const Shape& w = c.inputs[1].shape;
    c.require(x.size() == 4 && w.size() == 4 && x[1] == w[1],
              fmt::format("x {} does not fit weight {}", shape_text(x), shape_text(w)));
    c.require(c.inputs[2].shape.empty() || c.inputs[2].shape == Shape{w[0]},
              fmt::format("bias {} does not fit weight {}", shape_text(c.inputs[2].shape),
                          shape_text(w)));
    const int64_t stride = c.attributes.get_int("stride");
    const int64_t padding = c.attributes.get_int("padding");
    c.require(stride > 0 && stride <= kMaxWindow && padding >= 0 && padding <= kMaxWindow,
              "stride must be positive and padding not negative");
    const int64_t rows = window_output(x[2], w[2], stride, padding);
    const int64_t columns = window_output(x[3], w[3], stride, padding);
    c.require(rows > 0 && columns > 0, fmt::format("a window of {}x{} does not fit images of {}x{}",
                                                   w[2], w[3], x[2], x[3]));
    return {{"", {{x[0], w[0], rows, columns}, c.inputs[0].dtype}}};
  }

  void forward(EmitContext& c) const override {
    c.call("conv2d")
        .read(c.input(0))
        .read(c.input(1))
        .read(c.input(2))
        .write(c.output(0))
        .workspace(columns(c))
        .flops(product_flops(c))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    if (c.needs_gradient(0)) {
      c.call("conv2d.backward_input")
          .read(c.gradient(0))
          .read(c.input(1))
          .write_gradient(0, true)
          .workspace(columns(c))
          .flops(product_flops(c))
          .emit();
    }
    if (c.needs_gradient(1)) {
      c.call("conv2d.backward_weight")
          .read(c.input(0))
          .read(c.gradient(0))
          .write_gradient(1, true)
          .write_gradient(2, true)
          .workspace(columns(c))
          .flops(product_flops(c))
          .weight_part()
          .emit();
    }
  }

 private:
  // [Ci*Kh*Kw*Ho*Wo], of one image.
  static TensorType columns(const EmitContext& c) {
    const Shape& w = c.input_type(1).shape;
    const Shape& y = c.output_type(0).shape;
    return {{num_elements({w[1], w[2], w[3], y[2], y[3]})}, c.input_type(0).dtype};
  }
  static double product_flops(const EmitContext& c) {
    const Shape& w = c.input_type(1).shape;
    return 2.0 * count_of(c.output_type(0)) * static_cast<double>(num_elements({w[1], w[2], w[3]}));
  }
};

}  // namespace

std::unique_ptr<OpRule> make_conv2d() { return std::make_unique<Conv2d>(); }

}  // namespace plimsoll
