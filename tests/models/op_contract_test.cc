// Every room's kernel calls against the operand table of docs/ops.md.
#include "models/autodiff.h"
#include "models/model.h"
#include "models/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

namespace plimsoll {
namespace {

struct Row {
  std::vector<std::string> inputs, outputs;
  std::string attributes;
};

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// Pieces between commas outside brackets. A piece that begins with a type letter ("F[B,H,T,T] (form
// naive)") is an alternative to the one before.
std::vector<std::string> operands(const std::string& cell) {
  std::vector<std::string> pieces(1);
  int depth = 0;
  for (const char c : cell) {
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (c == ',' && depth == 0) {
      pieces.emplace_back();
    } else {
      pieces.back() += c;
    }
  }
  std::vector<std::string> found;
  for (const std::string& piece : pieces) {
    const std::string text = trimmed(piece);
    if (!text.empty() && std::islower(static_cast<unsigned char>(text[0])) != 0) {
      found.push_back(text);
    }
  }
  return found;
}

std::map<std::string, Row> documented() {
  std::ifstream file(std::string(PLIMSOLL_SOURCE_DIR) + "/docs/ops.md");
  std::map<std::string, Row> rows;
  const std::regex pattern(R"(\| `([a-z0-9_.]+)` \|([^|]*)\|([^|]*)\|([^|]*)\|.*)");
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, pattern)) continue;
    rows[match[1]] = {operands(match[2]), operands(match[3]), match[4]};
  }
  return rows;
}

struct Calls {
  std::vector<KernelCall> calls;
  std::set<std::string> op_kinds;  // that were in the graphs
};

void collect(const Graph& graph, Calls& all) {
  const TrainingGraph t =
      graph.training() ? differentiate(graph, graph.float_type()) : forward_only(graph);
  all.calls.insert(all.calls.end(), t.forward.begin(), t.forward.end());
  all.calls.insert(all.calls.end(), t.backward.begin(), t.backward.end());
  for (const OpVertex v : boost::make_iterator_range(boost::vertices(graph.ops()))) {
    all.op_kinds.insert(graph.op(v).kind);
  }
}

// All small built-in models in every form that changes their calls.
Calls all_calls() {
  Calls all;
  for (const ModelSpec& spec : builtin_models()) {
    if (spec.layers > 16) continue;
    for (const char* attention : {"flash", "naive"}) {
      for (const int64_t chunks : {1, 2}) {
        const bool text = spec.family == Family::kGpt2 || spec.family == Family::kLlama;
        BuildOptions options{.micro_batch = 2,
                             .seq = 8,
                             .save_rules = {},
                             .dropout = spec.family == Family::kResNet ? 0 : 0.1,
                             .attention = attention,
                             .loss_chunks = text ? chunks : 1};
        collect(build_model(spec, options), all);
        if (spec.heads > 0 && spec.heads % 2 == 0) {
          ModelSpec even = spec;  // an even number of tokens with the class token
          if (spec.family == Family::kVit) even.image_size = 5 * spec.patch;
          for (const bool sequence : {false, true}) {
            const Graph whole = build_model(even, options);
            collect(shard(whole, {.tp = 2, .sequence_parallel = sequence}), all);
          }
        }
        options.training = false;
        collect(build_model(spec, options), all);
      }
    }
  }
  // No built-in model flattens images.
  Graph graph(SaveRules::plimsoll(), DType::kF32, true);
  const TensorId images = graph.add_input("images", {{2, 1, 4, 4}, DType::kF32});
  const TensorId kernel = graph.add_parameter("conv.weight", {3, 1, 3, 3}, {});
  const TensorId bias = graph.add_parameter("conv.bias", {3}, {});
  const TensorId y = graph.add("conv2d", "conv", {images, kernel, bias},
                               {{"stride", int64_t{1}}, {"padding", int64_t{0}}});
  const TensorId flat = graph.add("flatten", "flat", {y});
  graph.add("mse", "loss", {flat, graph.add_input("values", {{2, 12}, DType::kF32})});
  collect(graph, all);
  return all;
}

TEST(OpContract, EveryKindIsExercised) {
  const Calls all = all_calls();
  for (const std::string_view kind : op_kinds()) {
    EXPECT_EQ(all.op_kinds.count(std::string(kind)), 1U) << kind;
  }
}

TEST(OpContract, EveryKindAndItsBackwardAreDocumented) {
  const std::map<std::string, Row> rows = documented();
  std::set<std::string> called;
  for (const KernelCall& call : all_calls().calls) called.insert(call.kernel);
  for (const std::string_view kind : op_kinds()) {
    EXPECT_EQ(rows.count(std::string(kind)), 1U) << kind;
  }
  for (const std::string& kernel : called) EXPECT_EQ(rows.count(kernel), 1U) << kernel;
  // And the other way: a documented backward is called by some room.
  for (const auto& [name, row] : rows) {
    if (name.find(".backward") == std::string::npos) continue;
    EXPECT_EQ(called.count(name), 1U) << name;
  }
}

TEST(OpContract, OperandsAreInTheTable) {
  const std::map<std::string, Row> rows = documented();
  for (const KernelCall& call : all_calls().calls) {
    SCOPED_TRACE(call.kernel);
    const Row& row = rows.at(call.kernel);
    ASSERT_EQ(call.inputs.size(), row.inputs.size());
    ASSERT_EQ(call.outputs.size(), row.outputs.size());
    ASSERT_EQ(call.accumulated.size(), call.outputs.size());
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      if (call.inputs[i] != kNoTensor) continue;
      EXPECT_NE(row.inputs[i].find('?'), std::string::npos) << row.inputs[i];
    }
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      if (call.accumulated[i] == kNoTensor) continue;
      EXPECT_NE(row.outputs[i].find("acc"), std::string::npos) << row.outputs[i];
    }
  }
}

TEST(OpContract, InPlaceIsInTheTable) {
  const std::map<std::string, Row> rows = documented();
  std::set<std::string> in_place;
  for (const KernelCall& call : all_calls().calls) {
    const Row& row = rows.at(call.kernel);
    for (const InPlace& pair : call.in_place) {
      const std::string& input = row.inputs.at(static_cast<size_t>(pair.input));
      const std::string& output = row.outputs.at(static_cast<size_t>(pair.output));
      const std::string name = input.substr(0, input.find_first_of(" [?"));
      EXPECT_TRUE(std::regex_search(output, std::regex("(= |or )" + name + "\\b")))
          << call.kernel << ": " << output << " in place of " << input;
      in_place.insert(call.kernel);
    }
  }
  // Nothing that the table allows is left unused.
  for (const auto& [name, row] : rows) {
    if (name == "copy" || name == "add" || name == "ema") continue;
    if (name == "swiglu") continue;  // its row states a formula
    const bool allowed = std::any_of(row.outputs.begin(), row.outputs.end(), [](const auto& out) {
      return std::regex_search(out, std::regex("^[a-z_]+(\\[[^\\]]*\\])? = "));
    });
    if (!allowed) continue;
    EXPECT_EQ(in_place.count(name), 1U) << name;
  }
}

TEST(OpContract, AttributesAreInTheTable) {
  const std::map<std::string, Row> rows = documented();
  for (const KernelCall& call : all_calls().calls) {
    std::string text = rows.at(call.kernel).attributes;
    if (text.find("the same") != std::string::npos) {
      text = rows.at(call.kernel.substr(0, call.kernel.find('.'))).attributes;
    }
    for (const auto& [name, value] : call.attributes.entries()) {
      // A backward call carries its op's attributes, also those that it does not need.
      if (call.kernel.find(".backward") != std::string::npos) continue;
      EXPECT_TRUE(std::regex_search(text, std::regex("\\b" + name + "\\b")))
          << call.kernel << ": " << name;
    }
  }
}

TEST(OpContract, CostsAreFiniteAndEveryCallMovesBytes) {
  for (const KernelCall& call : all_calls().calls) {
    EXPECT_GE(call.flops, 0) << call.kernel;
    EXPECT_GT(call.bytes_moved, 0) << call.kernel;
  }
}

// Matrix products are (2 N + 4 L s h) FLOPs a token forward without the embeddings, twice that
// backward in the naive form: the convention of MFU, attention counted fully.
TEST(OpContract, FlopsFollowTheConvention) {
  const ModelSpec spec = load_model("gpt2");
  const int64_t tokens = 2 * 64;
  const Graph graph =
      build_model(spec, {.micro_batch = 2, .seq = 64, .save_rules = {}, .attention = "naive"});
  const TrainingGraph t = differentiate(graph, DType::kF32);
  const auto products = [](const std::vector<KernelCall>& calls) {
    double sum = 0;
    for (const KernelCall& call : calls) {
      if (call.kernel.starts_with("linear") || call.kernel.starts_with("attention")) {
        sum += call.flops;
      }
    }
    return sum;
  };
  int64_t matrix = 0;
  for (const TensorId id : graph.parameters()) {
    const Tensor& tensor = graph.tensor(id);
    if (tensor.type.shape.size() == 2 && tensor.name != "wpe.weight") {
      matrix += tensor.type.elements();
    }
  }
  const double attention = 4.0 * static_cast<double>(spec.layers * 64 * spec.hidden);
  const double forward =
      static_cast<double>(tokens) * (2.0 * static_cast<double>(matrix) + attention);
  EXPECT_DOUBLE_EQ(products(t.forward), forward);
  EXPECT_DOUBLE_EQ(products(t.backward), 2 * forward);
}

}  // namespace
}  // namespace plimsoll
