// Parameter counts of the built-in models against published ones, and the speed of large graphs.
#include "models/autodiff.h"
#include "models/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <set>

namespace plimsoll {
namespace {

struct Published {
  const char* name;
  int64_t parameters;
};

class ParameterCount : public testing::TestWithParam<Published> {};

TEST_P(ParameterCount, IsExact) {
  EXPECT_EQ(count_parameters(load_model(GetParam().name)), GetParam().parameters);
}

INSTANTIATE_TEST_SUITE_P(
    Builtin, ParameterCount,
    testing::Values(Published{"gpt2", 124439808}, Published{"gpt2-medium", 354823168},
                    Published{"gpt2-large", 774030080}, Published{"gpt2-xl", 1557611200},
                    Published{"gpt2-tiny", 120576}, Published{"llama2-7b", 6738415616},
                    Published{"llama2-13b", 13015864320}, Published{"llama2-70b", 68976648192},
                    Published{"llama3-8b", 8030261248}, Published{"llama3-70b", 70553706496},
                    Published{"llama3-405b", 405853388800}, Published{"llama3.2-1b", 1235814400},
                    Published{"llama3.2-3b", 3212749824}, Published{"mistral-7b", 7241732096},
                    Published{"qwen3-8b", 8190735360}, Published{"mixtral-8x7b", 46702792704},
                    Published{"mixtral-8x22b", 140630071296},
                    Published{"deepseek-v3", 671026404352}, Published{"bert-base", 109514298},
                    Published{"bert-large", 335174458}, Published{"vit-b-16", 86567656},
                    Published{"vit-l-16", 304326632}, Published{"resnet18", 11689512},
                    Published{"resnet50", 25557032}),
    [](const auto& test) {
      std::string name = test.param.name;
      std::replace_if(
          name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
      return name;
    });

TEST(Catalogue, Gpt3IsWithinATenthOfAPercent) {
  const auto count = static_cast<double>(count_parameters(load_model("gpt3-175b")));
  EXPECT_NEAR(count, 174.6e9, 1e-3 * 174.6e9);
}

TEST(Catalogue, NamesAreUniqueAndEveryModelTrains) {
  std::set<std::string> names;
  for (const ModelSpec& spec : builtin_models()) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    const Graph graph = build_model(spec, {.micro_batch = 2, .seq = 8, .save_rules = {}});
    const TrainingGraph training = differentiate(graph, DType::kF32);
    // Every parameter has a gradient, every state a contribution.
    std::set<TensorId> with_gradient;
    for (const ParameterGradient& gradient : training.gradients) {
      with_gradient.insert(gradient.parameter);
    }
    EXPECT_EQ(with_gradient.size(), graph.parameters().size()) << spec.name;
    EXPECT_EQ(training.state_gradients.size(), graph.states().size()) << spec.name;
    std::set<std::string> tensor_names;
    for (const Tensor& tensor : graph.tensors()) {
      EXPECT_TRUE(tensor_names.insert(tensor.name).second) << spec.name << ": " << tensor.name;
    }
  }
}

TEST(Catalogue, LargestModelIsDifferentiatedInNoTime) {
  const ModelSpec spec = load_model("llama3-405b");
  const auto start = std::chrono::steady_clock::now();
  const Graph graph = build_model(
      spec, {.micro_batch = 1, .seq = 8192, .float_type = DType::kBF16, .save_rules = {}});
  const TrainingGraph training = differentiate(graph, DType::kF32);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(graph.num_layers(), 126);
  EXPECT_GT(training.backward.size(), size_t{126 * 10});
#ifdef NDEBUG
  EXPECT_LT(seconds.count(), 0.1);
#else
  EXPECT_LT(seconds.count(), 5.0);  // unoptimised, perhaps with sanitizers
#endif
}

TEST(Catalogue, TrainingLengths) {
  EXPECT_EQ(load_model("gpt2").training_length, 1024);
  EXPECT_EQ(load_model("gpt3-175b").training_length, 2048);
  EXPECT_EQ(load_model("llama2-70b").training_length, 4096);
  EXPECT_EQ(load_model("llama3-405b").training_length, 8192);
}

}  // namespace
}  // namespace plimsoll
