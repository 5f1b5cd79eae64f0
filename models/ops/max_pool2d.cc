// The largest value of each window; the first of equal ones takes the gradient.
#include "models/ops/rooms.h"

namespace plimsoll {

namespace {

class MaxPool2d final : public OpRule {
 public:
  [[nodiscard]] std::string_view kind() const override { return "max_pool2d"; }

  [[nodiscard]] std::vector<OutputSpec> infer(const InferContext& c) const override {
    c.require(c.inputs.size() == 1 && c.inputs[0].shape.size() == 4,
              "max_pool2d takes x [N, C, H, W]");
    const Shape& x = c.inputs[0].shape;
    const int64_t kernel = c.attributes.get_int("kernel");
    const int64_t stride = c.attributes.get_int("stride");
    const int64_t padding = c.attributes.get_int("padding");
    c.require(kernel > 0 && kernel <= kMaxWindow && stride > 0 && stride <= kMaxWindow &&
                  padding >= 0 && 2 * padding <= kernel,
              "kernel and stride must be positive, padding at most half the kernel");
    const int64_t rows = window_output(x[2], kernel, stride, padding);
    const int64_t columns = window_output(x[3], kernel, stride, padding);
    c.require(
        rows > 0 && columns > 0,
        fmt::format("a window of {0}x{0} does not fit images of {1}x{2}", kernel, x[2], x[3]));
    return {{"", {{x[0], x[1], rows, columns}, c.inputs[0].dtype}}};
  }

  void forward(EmitContext& c) const override {
    const auto kernel = static_cast<double>(c.op().attributes.get_int("kernel"));
    c.call("max_pool2d")
        .read(c.input(0))
        .write(c.output(0))
        .flops(kernel * kernel * count_of(c.output_type(0)))
        .emit();
  }

  void backward(BackwardContext& c) const override {
    const auto kernel = static_cast<double>(c.op().attributes.get_int("kernel"));
    c.call("max_pool2d.backward")
        .read(c.gradient(0))
        .read(c.input(0))
        .read(c.output(0))
        .write_gradient(0, false)
        .flops(kernel * kernel * count_of(c.output_type(0)))
        .emit();
  }
};

}  // namespace

std::unique_ptr<OpRule> make_max_pool2d() { return std::make_unique<MaxPool2d>(); }

}  // namespace plimsoll
