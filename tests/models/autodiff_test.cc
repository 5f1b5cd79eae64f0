// The structure of differentiated graphs: where gradients are passed, added, copied.
#include "models/autodiff.h"

#include "models/model.h"
#include "models/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace plimsoll {
namespace {

using testing::ElementsAre;

constexpr int64_t kWidth = 8;

// Small graphs over [4, 8] values, made by hand.
struct Sketch {
  Graph graph{SaveRules::plimsoll(), DType::kF32, true};
  int made = 0;

  std::string next(const std::string& kind) { return fmt::format("{}{}", kind, made++); }
  TensorId features() { return graph.add_input("features", {{4, kWidth}, DType::kF32}); }
  TensorId vector(const std::string& name) { return graph.add_parameter(name, {kWidth}, {}); }
  TensorId linear(TensorId x) {
    const std::string name = next("linear");
    const TensorId w = graph.add_parameter(name + ".weight", {kWidth, kWidth}, {});
    return graph.add("linear", name, {x, w, kNoTensor});
  }
  TensorId norm(TensorId x) {
    const std::string name = next("norm");
    return graph.add("layer_norm", name, {x, vector(name + ".weight"), vector(name + ".bias")},
                     {{"epsilon", 1e-5}});
  }
  TensorId gelu(TensorId x) {
    return graph.add("gelu", next("gelu"), {x}, {{"approximate", "tanh"}});
  }
  TensorId relu(TensorId x) { return graph.add("relu", next("relu"), {x}); }
  TensorId sum(TensorId a, TensorId b) { return graph.add("residual", next("sum"), {a, b}); }
  TrainingGraph finish(TensorId y) {
    const TensorId values = graph.add_input("values", graph.type(y));
    graph.add("mse", "loss", {y, values});
    return differentiate(graph, DType::kF32);
  }
};

std::vector<std::string> kernels(const std::vector<KernelCall>& calls) {
  std::vector<std::string> names;
  for (const KernelCall& call : calls) names.push_back(call.kernel);
  return names;
}

TEST(Autodiff, ResidualPassesOneGradientAndTheNormAddsToIt) {
  Sketch s;
  const TensorId h = s.linear(s.features());
  const TrainingGraph t = s.finish(s.sum(h, s.linear(s.norm(h))));
  EXPECT_THAT(kernels(t.backward),
              ElementsAre("mse.backward", "linear.backward_input", "linear.backward_weight",
                          "layer_norm.backward", "linear.backward_weight"));
  const TensorId passed = t.backward[0].outputs[0];
  EXPECT_EQ(t.backward[1].inputs[0], passed);
  EXPECT_EQ(t.backward[3].accumulated[0], passed);
  EXPECT_EQ(t.backward[4].inputs[1], t.backward[3].outputs[0]);
}

TEST(Autodiff, SumStartsFromACopyWhenTheGradientIsReadInTheSameCall) {
  Sketch s;
  const TensorId h = s.linear(s.features());
  const TrainingGraph t = s.finish(s.sum(h, s.norm(h)));
  EXPECT_THAT(kernels(t.backward),
              ElementsAre("mse.backward", "copy", "layer_norm.backward", "linear.backward_weight"));
  EXPECT_EQ(t.backward[1].inputs[0], t.backward[0].outputs[0]);
  EXPECT_EQ(t.backward[2].accumulated[0], t.backward[1].outputs[0]);
  EXPECT_EQ(t.backward[2].inputs[0], t.backward[0].outputs[0]);
}

TEST(Autodiff, SumStartsFromACopyWhenTheGradientIsReadLater) {
  Sketch s;
  const TensorId x = s.features();
  const TensorId a = s.linear(x);
  const TensorId b = s.linear(x);
  const TensorId l = s.linear(s.norm(a));
  const TrainingGraph t = s.finish(s.sum(s.sum(a, b), l));
  // The gradient of the sum is also that of b, whose layer comes last.
  EXPECT_THAT(
      kernels(t.backward),
      ElementsAre("mse.backward", "linear.backward_input", "linear.backward_weight", "copy",
                  "layer_norm.backward", "linear.backward_weight", "linear.backward_weight"));
  EXPECT_EQ(t.backward[4].accumulated[0], t.backward[3].outputs[0]);
  EXPECT_EQ(t.backward[5].inputs[1], t.backward[0].outputs[0]);
  EXPECT_EQ(t.backward[6].inputs[1], t.backward[4].outputs[0]);
}

TEST(Autodiff, KernelThatCannotAccumulateGetsAnAdd) {
  Sketch s;
  const TensorId h = s.linear(s.features());
  const TrainingGraph t = s.finish(s.sum(h, s.gelu(h)));
  EXPECT_THAT(kernels(t.backward),
              ElementsAre("mse.backward", "gelu.backward", "add", "linear.backward_weight"));
  EXPECT_THAT(t.backward[1].accumulated, ElementsAre(kNoTensor));
  EXPECT_THAT(t.backward[2].inputs,
              ElementsAre(t.backward[0].outputs[0], t.backward[1].outputs[0]));
}

TEST(Autodiff, UnusedOpsHaveNoBackward) {
  Sketch s;
  const TensorId h = s.linear(s.features());
  s.gelu(s.linear(h));
  const TrainingGraph t = s.finish(h);
  EXPECT_THAT(kernels(t.backward), ElementsAre("mse.backward", "linear.backward_weight"));
  EXPECT_EQ(t.forward.size(), 4);
  EXPECT_EQ(t.gradients.size(), 1);
}

TEST(Autodiff, InputsGetNoGradient) {
  Sketch s;
  const TrainingGraph t = s.finish(s.linear(s.gelu(s.features())));
  EXPECT_THAT(kernels(t.backward), ElementsAre("mse.backward", "linear.backward_weight"));
}

TEST(Autodiff, FlattenIsAViewInBothDirections) {
  Graph graph(SaveRules::plimsoll(), DType::kF32, true);
  const TensorId images = graph.add_input("images", {{2, 3, 4, 4}, DType::kF32});
  const TensorId kernel = graph.add_parameter("conv.weight", {5, 3, 3, 3}, {});
  const TensorId y = graph.add("conv2d", "conv", {images, kernel, kNoTensor},
                               {{"stride", int64_t{1}}, {"padding", int64_t{1}}});
  const TensorId flat = graph.add("flatten", "flat", {y});
  const TensorId w = graph.add_parameter("fc.weight", {10, 5 * 4 * 4}, {});
  const TensorId logits = graph.add("linear", "fc", {flat, w, kNoTensor});
  const TensorId labels = graph.add_input("labels", {{2}, DType::kI32});
  graph.add("cross_entropy", "loss", {logits, labels});
  const TrainingGraph t = differentiate(graph, DType::kF32);

  EXPECT_EQ(graph.tensor(flat).view_of, y);
  EXPECT_THAT(kernels(t.forward), ElementsAre("conv2d", "linear", "cross_entropy"));
  EXPECT_THAT(kernels(t.backward), ElementsAre("cross_entropy.backward", "linear.backward_input",
                                               "linear.backward_weight", "conv2d.backward_weight"));
  const Tensor& gradient = t.tensors[static_cast<size_t>(t.backward[3].inputs[1])];
  EXPECT_EQ(gradient.type.shape, (Shape{2, 5, 4, 4}));
  EXPECT_EQ(gradient.view_of, t.backward[1].outputs[0]);
  // What is saved is the tensor itself, not the view.
  EXPECT_THAT(saved_tensors(t), testing::Contains(y));
  EXPECT_THAT(saved_tensors(t), testing::Not(testing::Contains(flat)));
}

TEST(Autodiff, TiedParameterHasOneGradientAUse) {
  const Graph graph =
      build_model(load_model("gpt2-tiny"), {.micro_batch = 2, .seq = 8, .save_rules = {}});
  const TrainingGraph t = differentiate(graph, DType::kF32);
  std::vector<int> uses;
  std::vector<std::string> makers;
  for (const ParameterGradient& gradient : t.gradients) {
    if (graph.tensor(gradient.parameter).name != "wte.weight") continue;
    uses.push_back(gradient.use);
    makers.push_back(t.tensors[static_cast<size_t>(gradient.gradient)].op);
  }
  EXPECT_THAT(uses, ElementsAre(1, 0));  // in order of production: the head comes first
  EXPECT_THAT(makers, ElementsAre("linear", "embedding"));
}

TEST(Autodiff, GradientTypeIsTheJobs) {
  const Graph graph =
      build_model(load_model("llama-tiny"),
                  {.micro_batch = 1, .seq = 8, .float_type = DType::kBF16, .save_rules = {}});
  const TrainingGraph t = differentiate(graph, DType::kF32);
  for (const ParameterGradient& gradient : t.gradients) {
    const TensorType& type = t.tensors[static_cast<size_t>(gradient.gradient)].type;
    EXPECT_EQ(type.dtype, DType::kF32);
    EXPECT_EQ(type.shape, graph.type(gradient.parameter).shape);
  }
}

TEST(Autodiff, RunningStatisticsAreASideEffectOfTraining) {
  const ModelSpec spec = load_model("resnet-tiny");
  const Graph graph = build_model(spec, {.micro_batch = 2, .save_rules = {}});
  const TrainingGraph t = differentiate(graph, DType::kF32);
  EXPECT_EQ(t.state_gradients.size(), graph.states().size());
  for (const KernelCall& call : t.forward) {
    EXPECT_EQ(call.side_effect, call.kernel == "batch_norm.statistics") << call.kernel;
    if (!call.side_effect) continue;
    const TensorType& statistics = t.tensors[static_cast<size_t>(call.outputs[0])].type;
    EXPECT_EQ(statistics.shape.front(), 2);
    EXPECT_GT(call.attributes.get_int("count"), 1);
  }
  const Graph inference =
      build_model(spec, {.micro_batch = 1, .training = false, .save_rules = {}});
  const TrainingGraph f = forward_only(inference);
  EXPECT_TRUE(f.state_gradients.empty());
  EXPECT_THAT(kernels(f.forward), testing::Not(testing::Contains("batch_norm")));
  EXPECT_THAT(kernels(f.forward), testing::Contains("batch_norm.inference"));
}

TEST(Autodiff, DropoutIsForTrainingAlone) {
  const ModelSpec spec = load_model("gpt2-tiny");
  const auto count = [&](bool training) {
    const Graph graph = build_model(
        spec, {.micro_batch = 1, .seq = 8, .training = training, .save_rules = {}, .dropout = 0.1});
    int ops = 0;
    double attention = 0;
    for (const KernelCall& call : forward_only(graph).forward) {
      if (call.kernel == "dropout") ++ops;
      if (call.kernel == "attention") attention += call.attributes.get_double("dropout");
    }
    return std::pair(ops, attention);
  };
  EXPECT_EQ(count(true), std::pair(1 + 2 * 2, 0.2));  // the embedding's, two a block
  EXPECT_EQ(count(false), std::pair(0, 0.0));
}

// Every family's order of ops lets gradients add up where they are.
TEST(Autodiff, BuiltInModelsNeedNoCopies) {
  for (const ModelSpec& spec : builtin_models()) {
    if (spec.layers > 16) continue;
    const Graph graph = build_model(spec, {.micro_batch = 2, .seq = 8, .save_rules = {}});
    const TrainingGraph t = differentiate(graph, DType::kF32);
    EXPECT_THAT(kernels(t.backward), testing::Not(testing::Contains("copy"))) << spec.name;
    EXPECT_THAT(kernels(t.backward), testing::Not(testing::Contains("add"))) << spec.name;
  }
}

TEST(Autodiff, GraphWithoutLossIsRefused) {
  Sketch s;
  s.linear(s.features());
  EXPECT_THROW(static_cast<void>(differentiate(s.graph, DType::kF32)), Error);
}

// Runs a backward list on numbers: each kernel multiplies the incoming gradient by a factor that
// stands for its Jacobian. Buffers alias as in memory: a view is its root's buffer, an accumulated
// output continues in the buffer that it names.
class Runner {
 public:
  explicit Runner(const TrainingGraph& graph) : graph_(graph) {
    buffers_.resize(graph.tensors.size());
    std::iota(buffers_.begin(), buffers_.end(), 0);
    for (const KernelCall& call : graph.backward) run(call);
  }

  // Value of d(output of the op that `parameter` belongs to).
  std::map<TensorId, uint64_t> parameter_values;

  static uint64_t factor(TensorId parameter) { return 2 * static_cast<uint64_t>(parameter) + 3; }
  static constexpr uint64_t kGelu = 1000003;
  static constexpr uint64_t kRelu = 7919;

 private:
  uint64_t& value(TensorId id) {
    while (graph_.tensors[static_cast<size_t>(id)].view_of != kNoTensor) {
      id = graph_.tensors[static_cast<size_t>(id)].view_of;
    }
    return values_[buffers_[static_cast<size_t>(id)]];
  }

  void write(const KernelCall& call, size_t k, uint64_t contribution) {
    const TensorId id = call.outputs[k];
    if (id == kNoTensor) return;
    const TensorId from = call.accumulated[k];
    if (from == kNoTensor) {
      value(id) = contribution;
      return;
    }
    const uint64_t sum = value(from) + contribution;
    TensorId root = from;
    while (graph_.tensors[static_cast<size_t>(root)].view_of != kNoTensor) {
      root = graph_.tensors[static_cast<size_t>(root)].view_of;
    }
    buffers_[static_cast<size_t>(id)] = buffers_[static_cast<size_t>(root)];
    value(id) = sum;
  }

  void run(const KernelCall& call) {
    if (call.kernel == "mse.backward") {
      write(call, 0, 1);
    } else if (call.kernel == "copy") {
      write(call, 0, value(call.inputs[0]));
    } else if (call.kernel == "add") {
      write(call, 0, value(call.inputs[0]) + value(call.inputs[1]));
    } else if (call.kernel == "gelu.backward") {
      write(call, 0, kGelu * value(call.inputs[0]));
    } else if (call.kernel == "relu.backward") {
      write(call, 0, kRelu * value(call.inputs[0]));
    } else if (call.kernel == "linear.backward_input") {
      write(call, 0, factor(call.inputs[1]) * value(call.inputs[0]));
    } else if (call.kernel == "linear.backward_weight") {
      write(call, 0, value(call.inputs[1]));
      remember(call.outputs[0]);
    } else if (call.kernel == "layer_norm.backward") {
      const uint64_t dy = value(call.inputs[0]);
      write(call, 1, dy);
      remember(call.outputs[1]);
      // Kernels may write dx before they are done reading dy.
      write(call, 0, factor(call.inputs[2]) * dy);
      RC_ASSERT(value(call.inputs[0]) == dy);
    } else {
      RC_FAIL("unexpected kernel " + call.kernel);
    }
  }

  void remember(TensorId gradient) {
    for (const ParameterGradient& one : graph_.gradients) {
      if (one.gradient == gradient) parameter_values[one.parameter] = value(gradient);
    }
  }

  const TrainingGraph& graph_;
  std::vector<int> buffers_;
  std::map<int, uint64_t> values_;
};

// The chain rule straight over the forward graph.
std::map<TensorId, uint64_t> expected_gradients(const Graph& graph) {
  std::map<TensorId, uint64_t> gradient;
  for (size_t v = boost::num_vertices(graph.ops()); v-- > 0;) {
    const OpNode& op = graph.op(v);
    const uint64_t dy = gradient[op.outputs[0]];
    if (op.kind == "mse") gradient[op.inputs[0]] += 1;
    if (op.kind == "gelu") gradient[op.inputs[0]] += Runner::kGelu * dy;
    if (op.kind == "relu") gradient[op.inputs[0]] += Runner::kRelu * dy;
    if (op.kind == "residual") {
      gradient[op.inputs[0]] += dy;
      gradient[op.inputs[1]] += dy;
    }
    if (op.kind == "linear" || op.kind == "layer_norm") {
      gradient[op.inputs[0]] += Runner::factor(op.inputs[1]) * dy;
      gradient[op.inputs[1]] = dy;
    }
  }
  return gradient;
}

RC_GTEST_PROP(Autodiff, AgreesWithTheChainRuleOnRandomGraphs, ()) {
  Sketch s;
  std::vector<TensorId> values{s.linear(s.features())};
  const int count = *rc::gen::resize(100, rc::gen::inRange(1, 30));
  for (int i = 0; i < count; ++i) {
    // Recent values more often, so that chains grow deep and branches meet again.
    const auto pick = [&] {
      const auto back = *rc::gen::inRange<size_t>(0, std::min<size_t>(values.size(), 4));
      return values[values.size() - 1 - back];
    };
    switch (*rc::gen::inRange(0, 6)) {
      case 0:
        values.push_back(s.linear(pick()));
        break;
      case 1:
        values.push_back(s.norm(pick()));
        break;
      case 2:
        values.push_back(s.gelu(pick()));
        break;
      case 3:
        values.push_back(s.relu(pick()));
        break;
      default:
        values.push_back(s.sum(pick(), pick()));
        break;
    }
  }
  const TrainingGraph t = s.finish(values.back());
  const Runner runner(t);
  const std::map<TensorId, uint64_t> expected = expected_gradients(s.graph);
  for (const auto& [parameter, value] : runner.parameter_values) {
    RC_ASSERT(value == expected.at(parameter));
  }
  // Whatever has a gradient by the chain rule has one here.
  for (const TensorId id : s.graph.parameters()) {
    const auto at = expected.find(id);
    const bool weight = s.graph.tensor(id).name.ends_with(".weight");
    if (weight && at != expected.end() && at->second != 0) {
      RC_ASSERT(runner.parameter_values.count(id) == 1);
    }
  }
}

// The parts of a split backward are together the calls of the whole one, but for copies of what the
// weights' part still reads; the weights' part makes gradients of parameters, and what it alone
// reads.
TEST(Autodiff, BackwardSplitsAtTheWeights) {
  for (const char* name : {"gpt2-tiny", "llama-tiny", "bert-tiny", "mixtral-tiny", "resnet-tiny"}) {
    for (const int tp : {1, 2}) {
      const ModelSpec model = load_model(name);
      if (tp > 1 && model.family == Family::kResNet) continue;
      BuildOptions options;
      options.micro_batch = 2;
      options.seq = model.family == Family::kResNet ? 0 : 8;
      Graph graph = build_model(model, options);
      if (tp > 1) graph = shard(graph, {.tp = tp, .sequence_parallel = true});
      const TrainingGraph whole = differentiate(graph, DType::kF32);
      const TrainingGraph split = differentiate(graph, DType::kF32, true);
      std::multiset<std::string> a;
      std::multiset<std::string> b;
      for (const KernelCall& call : whole.backward) a.insert(call.kernel);
      for (const auto* part : {&split.backward, &split.backward_weights}) {
        for (const KernelCall& call : *part) b.insert(call.kernel);
      }
      a.erase("copy");
      b.erase("copy");
      EXPECT_EQ(a, b) << name;
      EXPECT_TRUE(whole.backward_weights.empty());
      ASSERT_FALSE(split.backward_weights.empty());
      std::set<TensorId> made;
      for (const KernelCall& call : split.backward_weights) {
        for (const TensorId id : call.outputs) {
          if (id != kNoTensor) made.insert(id);
        }
      }
      for (const KernelCall& call : split.backward) {
        EXPECT_EQ(call.kernel.find(".backward_weight"), std::string::npos) << name;
        for (const TensorId id : call.inputs) EXPECT_EQ(made.count(id), 0U) << call.kernel;
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll
