#include "costmodel/profile.h"

#include "tests/costmodel/expect_error.h"

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <fstream>
#include <iterator>
#include <numeric>

namespace plimsoll {
namespace {

constexpr std::string_view kFile = R"(title = "Other"
source = "a page"
attention = "naive"
selective_ops = []
[save]
dropout_mask = true
softmax_dropout = false
[states.half]
gradients = "bf16"
master_weights = false
moments = "f16"
[states.single]
gradients = "f32"
master_weights = false
moments = "f32"
[gradient_buffers]
contiguous = true
bucket_elements = 40000000
alignment_elements = 64
sharded_multiple_elements = 128
[runs]
parallel = ["dp", "ep"]
sequence_parallel = true
zero = [0, 3]
recompute = ["none"]
mixed_recompute = false
schedules = ["gpipe"]
offload = ["optimizer"]
[efficiencies]
matmul = 0.5
memory = 1
)";

Profile parse(const std::string& text) { return internal::parse_profile("other", text, "p.toml"); }

std::string with(std::string from, const std::string& to) {
  std::string text(kFile);
  const size_t at = text.find(from);
  PLIMSOLL_CHECK(at != std::string::npos, "'{}' is not in the file", from);
  return text.replace(at, from.size(), to);
}

// The paper's figures, typed here a second time: section 4 for activations, 18 bytes a parameter.
TEST(Profiles, MegatronIsThatOfThePaper) {
  const Profile& megatron = find_profile("megatron");
  EXPECT_NE(megatron.source.find("arXiv:2205.05198"), std::string::npos);
  EXPECT_TRUE(megatron.save_rules.store_dropout_mask);
  EXPECT_TRUE(megatron.save_rules.store_softmax_dropout);
  EXPECT_EQ(megatron.attention, "naive");
  const BytesPerParameter bytes = bytes_per_parameter(megatron, DType::kF16);
  EXPECT_EQ(bytes.weights, 2);
  EXPECT_EQ(bytes.gradients, 4);
  EXPECT_EQ(bytes.master_weights + bytes.moments, 12);
  EXPECT_EQ(bytes.total(), 18);
  EXPECT_TRUE(megatron.gradient_buffers.contiguous);
  EXPECT_EQ(padded_elements(megatron.gradient_buffers, 1001, 8), 1008);
  EXPECT_EQ(padded_elements(megatron.gradient_buffers, 1001, 1), 1001);
  EXPECT_EQ(megatron.runs.parallel, (std::vector<std::string>{"dp", "tp", "pp"}));
}

TEST(Profiles, PlimsollRunsWhatItsExecutorRuns) {
  const Profile& own = find_profile("plimsoll");
  EXPECT_EQ(own.runs.parallel, (std::vector<std::string>{"dp", "tp", "pp"}));
  EXPECT_EQ(own.runs.zero, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(own.runs.schedules, (std::vector<std::string>{"1f1b", "gpipe", "interleaved", "zb-h1"}));
  EXPECT_EQ(own.runs.recompute, (std::vector<std::string>{"none", "selective", "full"}));
  EXPECT_FALSE(own.save_rules.store_dropout_mask);
  EXPECT_EQ(own.attention, "flash");
  EXPECT_EQ(bytes_per_parameter(own, DType::kBF16).total(), 18);
  EXPECT_EQ(bytes_per_parameter(own, DType::kF32).total(), 16);
  EXPECT_EQ(bytes_per_parameter(own, DType::kF32, 1).total(), 12);
  EXPECT_EQ(bytes_per_parameter(own, DType::kF64).total(), 32);
}

TEST(Profiles, AWrongNameGetsTheNearestOne) {
  expect_error([] { (void)find_profile("megatrno"); }, ExitCode::kBadInput,
               "unknown framework 'megatrno'", "did you mean 'megatron'?");
  expect_error([] { (void)find_profile(""); }, ExitCode::kBadInput, "unknown", "known are ");
}

// What selective recompute runs again is, in bytes, the second term of the paper's equation 1.
TEST(Profiles, MegatronsSelectiveOpsHoldTheSquares) {
  ModelSpec model = load_model("gpt2-tiny");
  BuildOptions options{
      .micro_batch = 3, .seq = 16, .float_type = DType::kBF16, .save_rules = {}, .dropout = 0.1};
  apply_profile(find_profile("megatron"), options);
  const Graph graph = build_model(model, options);
  std::vector<int64_t> bytes(static_cast<size_t>(graph.num_layers()), 0);
  const auto& selective = find_profile("megatron").selective_ops;
  for (auto [at, end] = boost::vertices(graph.ops()); at != end; ++at) {
    const OpNode& op = graph.op(*at);
    if (std::find(selective.begin(), selective.end(), op.kind) == selective.end()) continue;
    for (size_t i = 1; i < op.outputs.size(); ++i) {
      bytes[static_cast<size_t>(op.layer)] += graph.type(op.outputs[i]).bytes();
    }
  }
  EXPECT_EQ(bytes,
            std::vector<int64_t>(static_cast<size_t>(model.layers), 5 * model.heads * 16 * 16 * 3));
}

TEST(Profile, ReadsEveryKey) {
  const Profile profile = parse(std::string(kFile));
  EXPECT_EQ(profile.name, "other");
  EXPECT_EQ(profile.title, "Other");
  EXPECT_EQ(profile.source, "a page");
  EXPECT_EQ(profile.attention, "naive");
  EXPECT_TRUE(profile.selective_ops.empty());
  EXPECT_TRUE(profile.save_rules.store_dropout_mask);
  EXPECT_FALSE(profile.save_rules.store_softmax_dropout);
  EXPECT_EQ(profile.half, (StateTypes{DType::kBF16, false, DType::kF16}));
  EXPECT_EQ(profile.single, (StateTypes{DType::kF32, false, DType::kF32}));
  EXPECT_EQ(profile.gradient_buffers, (GradientBuffers{true, 40'000'000, 64, 128}));
  EXPECT_EQ(profile.runs, (ProfileRuns{.parallel = {"dp", "ep"},
                                       .sequence_parallel = true,
                                       .zero = {0, 3},
                                       .recompute = {"none"},
                                       .schedules = {"gpipe"},
                                       .offload = {"optimizer"},
                                       .mixed_recompute = false}));
  EXPECT_EQ(profile.matmul_efficiency, 0.5);
  EXPECT_EQ(profile.memory_efficiency, 1.0);
  EXPECT_EQ(profile.collective_efficiency, std::nullopt);
  EXPECT_EQ(padded_elements(profile.gradient_buffers, 1, 96), 384);
}

TEST(Profile, EfficienciesOverrideTheDevices) {
  const Profile profile = parse(std::string(kFile));
  Hardware device = find_hardware("a100-80gb");
  const double collective = device.collective_efficiency;
  apply_profile(profile, device);
  EXPECT_EQ(device.matmul_efficiency, 0.5);
  EXPECT_EQ(device.memory_efficiency, 1);
  EXPECT_EQ(device.collective_efficiency, collective);
}

TEST(Profile, MistakesAreNamedWithTheirPlace) {
  const auto fails = [](const std::string& text, const std::string& message,
                        const std::string& hint = "") {
    expect_error([&] { (void)parse(text); }, ExitCode::kBadInput, message, hint);
  };
  fails("", "p.toml: lacks save");
  fails(with("title = \"Other\"\n", ""), "p.toml: lacks title");
  fails(with("attention =", "atention ="), "p.toml:3:12: unknown key 'atention'",
        "did you mean 'attention'?");
  fails(with("\"naive\"", "\"flsh\""), "p.toml:3:13: unknown attention 'flsh'",
        "did you mean 'flash'?");
  fails(with("\"naive\"", "3"), "p.toml:3:13: attention must be a string");
  fails(with("softmax_dropout = false\n", ""), "p.toml:5:1: [save] lacks softmax_dropout");
  fails(with("dropout_mask = true", "dropout_mask = 1"),
        "p.toml:6:16: dropout_mask must be true or false");
  fails(with("moments = \"f16\"", "moments = \"i64\""), "p.toml:11:11: unknown moments 'i64'");
  fails(with("[states.single]", "[states.singel]"), "p.toml:12:1: unknown key 'singel'",
        "did you mean 'single'?");
  fails(with("bucket_elements = 40000000", "bucket_elements = -1"),
        "p.toml:18:19: bucket_elements must be a whole number from 0 to");
  fails(with("bucket_elements = 40000000", "bucket_elements = 4e7"), "p.toml:18:19: ");
  fails(with("alignment_elements = 64", "alignment_elements = 0"), "p.toml:19:22: ");
  fails(with("[\"dp\", \"ep\"]", "[\"dp\", \"xp\"]"), "p.toml:22:19: unknown parallel 'xp'");
  fails(with("[\"dp\", \"ep\"]", "[\"dp\", \"dp\"]"), "p.toml:22:19: parallel has 'dp' twice");
  fails(with("[\"dp\", \"ep\"]", "\"dp\""), "p.toml:22:12: parallel must be a list");
  fails(with("[0, 3]", "[0, 4]"), "p.toml:24:12: zero must be a whole number from 0 to 3");
  fails(with("[0, 3]", "[0, [1]]"), "p.toml:24:12: zero must be");
  fails(with("matmul = 0.5", "matmul = 1.5"), "p.toml:30:10: matmul must be above 0");
  fails(with("matmul = 0.5", "matmul = nan"), "p.toml:30:10: matmul must be a number");
  fails(with("matmul = 0.5", "matmull = 0.5"), "p.toml:30:11: unknown key 'matmull'");
  fails(with("[runs]", "[runs"), "p.toml:21:");
  fails("save = 1\n" + with("[save]", "[other]"), "p.toml:");
  fails(std::string(100'000, '['), "p.toml:1:");
}

RC_GTEST_PROP(Profile, SurvivesAnyBytes, (const std::string& text)) {
  try {
    (void)parse(text);
    RC_FAIL("random bytes are no profile");
  } catch (const Error& error) {
    RC_ASSERT(error.code() == ExitCode::kBadInput);
  }
}

RC_GTEST_PROP(Profile, SurvivesDamage, ()) {
  std::string text(kFile);
  const auto at = *rc::gen::inRange<size_t>(0, text.size());
  text.replace(at, *rc::gen::inRange<size_t>(0, 20), *rc::gen::arbitrary<std::string>());
  try {
    RC_ASSERT(parse(text).name == "other");
  } catch (const Error& error) {
    RC_ASSERT(error.code() == ExitCode::kBadInput);
  }
}

RC_GTEST_PROP(Profile, PaddingIsTheNextCommonMultiple, ()) {
  const GradientBuffers buffers{.sharded_multiple_elements = *rc::gen::inRange<int64_t>(1, 300)};
  const int64_t elements = *rc::gen::inRange<int64_t>(0, 1 << 20);
  const int64_t ranks = *rc::gen::inRange<int64_t>(2, 300);
  const int64_t padded = padded_elements(buffers, elements, ranks);
  RC_ASSERT(padded % ranks == 0);
  RC_ASSERT(padded % buffers.sharded_multiple_elements == 0);
  RC_ASSERT(padded >= elements);
  RC_ASSERT(padded - elements < std::lcm(ranks, buffers.sharded_multiple_elements));
}

// The binary holds the files of the source tree, byte by byte.
TEST(Profiles, TheEmbeddedTextIsTheFiles) {
  const auto profiles = internal::embedded_profiles();
  ASSERT_GE(profiles.size(), 2U);
  for (const auto& [name, text] : profiles) {
    std::ifstream file(std::string(PLIMSOLL_SOURCE_DIR) + "/costmodel/profiles/" +
                       std::string(name) + ".toml");
    EXPECT_EQ(text, std::string(std::istreambuf_iterator<char>(file), {})) << name;
  }
}

}  // namespace
}  // namespace plimsoll
