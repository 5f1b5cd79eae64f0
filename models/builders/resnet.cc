// ResNet (He et al. 2015) as in torchvision, with its names: basic or bottleneck blocks, the stride
// of a bottleneck in its 3x3 convolution.
#include "models/builders/builder.h"

#include <cmath>

namespace plimsoll {

namespace {

constexpr int64_t kBottleneckExpansion = 4;

class ResNetBuilder {
 public:
  ResNetBuilder(const ModelSpec& spec, const BuildOptions& options)
      : spec_(spec), b_(spec, options), graph_(b_.graph()) {}

  Graph build() {
    TensorId x = stem(b_.image_input());
    int layer = 0;
    int64_t width = spec_.hidden;
    for (size_t stage = 0; stage < spec_.stage_blocks.size(); ++stage) {
      if (stage > 0) width = checked_mul(2, width);
      for (int64_t i = 0; i < spec_.stage_blocks[stage]; ++i) {
        const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
        const Shape& shape = graph_.type(x).shape;
        graph_.begin_layer(layer++, fmt::format("{}.{}x{}x{}.{}.{}", kind(), shape[1], shape[2],
                                                shape[3], width, stride));
        x = block(fmt::format("layer{}.{}.", stage + 1, i), x, width, stride);
        graph_.end_layer();
      }
    }
    x = graph_.add("global_avg_pool", "avgpool", {x});
    b_.class_loss(classifier(x));
    return b_.take();
  }

 private:
  [[nodiscard]] const char* kind() const { return spec_.bottleneck ? "bottleneck" : "basic"; }

  TensorId stem(TensorId images) {
    if (spec_.small_images) {
      return relu("relu", norm("bn1", conv("conv1", images, spec_.hidden, 3, 1)));
    }
    const TensorId x = relu("relu", norm("bn1", conv("conv1", images, spec_.hidden, 7, 2)));
    return graph_.add("max_pool2d", "maxpool", {x},
                      {{"kernel", int64_t{3}}, {"stride", int64_t{2}}, {"padding", int64_t{1}}});
  }

  TensorId block(const std::string& name, TensorId x, int64_t width, int64_t stride) {
    const int64_t out = spec_.bottleneck ? checked_mul(kBottleneckExpansion, width) : width;
    TensorId y = kNoTensor;
    if (spec_.bottleneck) {
      y = relu(name + "relu1", norm(name + "bn1", conv(name + "conv1", x, width, 1, 1)));
      y = relu(name + "relu2", norm(name + "bn2", conv(name + "conv2", y, width, 3, stride)));
      y = norm(name + "bn3", conv(name + "conv3", y, out, 1, 1));
    } else {
      y = relu(name + "relu1", norm(name + "bn1", conv(name + "conv1", x, width, 3, stride)));
      y = norm(name + "bn2", conv(name + "conv2", y, width, 3, 1));
    }
    if (stride != 1 || graph_.type(x).shape[1] != out) {
      x = norm(name + "downsample.1", conv(name + "downsample.0", x, out, 1, stride));
    }
    return relu(name + "relu", graph_.add("residual", name + "residual", {x, y}));
  }

  // Square kernel, padded so that stride 1 keeps the extent; no bias, a norm follows.
  TensorId conv(const std::string& name, TensorId x, int64_t out, int64_t kernel, int64_t stride) {
    // He et al. 2015, fan-out form as in torchvision.
    const double fan_out = static_cast<double>(checked_mul(out, kernel * kernel));
    const TensorId w =
        graph_.add_parameter(name + ".weight", {out, graph_.type(x).shape[1], kernel, kernel},
                             normal_weight(std::sqrt(2.0 / fan_out)));
    return graph_.add("conv2d", name, {x, w, kNoTensor},
                      {{"stride", stride}, {"padding", kernel / 2}});
  }

  TensorId norm(const std::string& name, TensorId x) {
    const int64_t channels = graph_.type(x).shape[1];
    const TensorId w = graph_.add_parameter(name + ".weight", {channels},
                                            constant_vector(ParameterInfo::Init::kOne));
    const TensorId bias = graph_.add_parameter(name + ".bias", {channels},
                                               constant_vector(ParameterInfo::Init::kZero));
    ParameterInfo statistics = constant_vector(ParameterInfo::Init::kRunning);
    statistics.parts = {{name + ".running_mean", 1, false}, {name + ".running_var", 1, false}};
    const TensorId running =
        graph_.add_state(name + ".running", {2, channels}, std::move(statistics));
    return graph_.add("batch_norm", name, {x, w, bias, running}, {{"epsilon", spec_.norm_epsilon}});
  }

  TensorId relu(const std::string& name, TensorId x) { return graph_.add("relu", name, {x}); }

  // torch's default for linear layers: uniform within 1 / sqrt(inputs).
  TensorId classifier(TensorId x) {
    const int64_t width = graph_.type(x).last();
    ParameterInfo info{.init = ParameterInfo::Init::kUniform,
                       .scale = 1.0 / std::sqrt(static_cast<double>(width)),
                       .matrix = true,
                       .parts = {}};
    const TensorId w = graph_.add_parameter("fc.weight", {spec_.classes, width}, info);
    info.matrix = false;
    const TensorId bias = graph_.add_parameter("fc.bias", {spec_.classes}, std::move(info));
    return graph_.add("linear", "fc", {x, w, bias});
  }

  const ModelSpec& spec_;
  Builder b_;
  Graph& graph_;
};

}  // namespace

Graph build_resnet(const ModelSpec& spec, const BuildOptions& options) {
  return ResNetBuilder(spec, options).build();
}

}  // namespace plimsoll
