#include "costmodel/profile.h"

#include "base/checked.h"
#include "base/spelling.h"
#include "costmodel/toml_read.h"

#include <numeric>

namespace plimsoll {

namespace {

using internal::TomlTable;

constexpr int64_t kMostElements = int64_t{1} << 40;

StateTypes read_states(const TomlTable& table) {
  const std::vector<std::string> types{"f32", "bf16", "f16"};
  StateTypes states;
  states.gradients = parse_dtype(table.word("gradients", types)).value();
  states.master_weights = table.flag("master_weights");
  states.moments = parse_dtype(table.word("moments", types)).value();
  return states;
}

GradientBuffers read_buffers(const TomlTable& table) {
  return {.contiguous = table.flag("contiguous"),
          .bucket_elements = table.whole("bucket_elements", 0, kMostElements),
          .alignment_elements = table.whole("alignment_elements", 1, 1 << 20),
          .sharded_multiple_elements = table.whole("sharded_multiple_elements", 1, 1 << 20)};
}

ProfileRuns read_runs(const TomlTable& table) {
  return {.parallel = table.words("parallel", {"dp", "tp", "pp", "cp", "ep"}),
          .sequence_parallel = table.flag("sequence_parallel"),
          .zero = table.wholes("zero", 0, 3),
          .recompute = table.words("recompute", {"none", "selective", "full", "optimal"}),
          .schedules =
              table.words("schedules", {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v"}),
          .offload = table.words("offload", {"optimizer", "activations"}),
          .mixed_recompute = table.flag("mixed_recompute")};
}

void read_efficiencies(const TomlTable& root, Profile& profile) {
  if (root.find("efficiencies") == nullptr) return;
  const TomlTable table = root.table("efficiencies", {"matmul", "memory", "collective"});
  const auto read = [&](std::string_view key, std::optional<double>& value) {
    if (const toml::node* node = table.find(key)) {
      value = internal::read_fraction(*node, key, table.file());
    }
  };
  read("matmul", profile.matmul_efficiency);
  read("memory", profile.memory_efficiency);
  read("collective", profile.collective_efficiency);
}

}  // namespace

namespace internal {

Profile parse_profile(std::string_view name, std::string_view text, std::string_view file) {
  const toml::table parsed = parse_toml(text, file);
  const TomlTable root(parsed, "", file,
                       {"title", "source", "attention", "selective_ops", "save", "states",
                        "gradient_buffers", "runs", "efficiencies"});
  const TomlTable save = root.table("save", {"dropout_mask", "softmax_dropout"});
  const TomlTable states = root.table("states", {"half", "single"});
  const std::vector<std::string> state_keys{"gradients", "master_weights", "moments"};
  Profile profile;
  profile.name = name;
  profile.title = root.word("title");
  profile.source = root.word("source");
  profile.attention = root.word("attention", {"flash", "naive"});
  profile.selective_ops = root.words("selective_ops", {"attention", "mla_attention"});
  profile.save_rules = {.store_dropout_mask = save.flag("dropout_mask"),
                        .store_softmax_dropout = save.flag("softmax_dropout")};
  profile.half = read_states(states.table("half", state_keys));
  profile.single = read_states(states.table("single", state_keys));
  profile.gradient_buffers = read_buffers(root.table(
      "gradient_buffers",
      {"contiguous", "bucket_elements", "alignment_elements", "sharded_multiple_elements"}));
  profile.runs = read_runs(root.table("runs", {"parallel", "sequence_parallel", "zero", "recompute",
                                               "mixed_recompute", "schedules", "offload"}));
  read_efficiencies(root, profile);
  return profile;
}

}  // namespace internal

const std::vector<Profile>& all_profiles() {
  static const std::vector<Profile> profiles = [] {
    std::vector<Profile> parsed;
    for (const auto& [name, text] : internal::embedded_profiles()) {
      parsed.push_back(
          internal::parse_profile(name, text, fmt::format("costmodel/profiles/{}.toml", name)));
    }
    return parsed;
  }();
  return profiles;
}

const Profile& find_profile(std::string_view name) {
  std::vector<std::string> known;
  for (const Profile& profile : all_profiles()) {
    if (profile.name == name) return profile;
    known.push_back(profile.name);
  }
  throw bad_input(fmt::format("unknown framework '{}'", name), did_you_mean(name, known));
}

StateTypes state_types(const Profile& profile, DType precision) {
  if (dtype_bytes(precision) == 2) return profile.half;
  StateTypes states = profile.single;
  if (precision == DType::kF64) states.gradients = states.moments = DType::kF64;
  return states;
}

BytesPerParameter bytes_per_parameter(const Profile& profile, DType precision,
                                      int64_t num_moments) {
  const StateTypes states = state_types(profile, precision);
  return {.weights = dtype_bytes(precision),
          .gradients = dtype_bytes(states.gradients),
          .master_weights = states.master_weights ? dtype_bytes(DType::kF32) : 0,
          .moments = num_moments * dtype_bytes(states.moments)};
}

int64_t padded_elements(const GradientBuffers& buffers, int64_t elements, int64_t sharding_ranks) {
  PLIMSOLL_CHECK(elements >= 0 && sharding_ranks > 0, "{} elements over {} ranks", elements,
                 sharding_ranks);
  if (sharding_ranks == 1) return elements;
  const int64_t common = std::gcd(sharding_ranks, buffers.sharded_multiple_elements);
  return align_up(elements,
                  checked_mul(sharding_ranks / common, buffers.sharded_multiple_elements));
}

void apply_profile(const Profile& profile, BuildOptions& options) {
  options.save_rules = profile.save_rules;
  options.attention = profile.attention;
}

void apply_profile(const Profile& profile, Hardware& hardware) {
  hardware.matmul_efficiency = profile.matmul_efficiency.value_or(hardware.matmul_efficiency);
  hardware.memory_efficiency = profile.memory_efficiency.value_or(hardware.memory_efficiency);
  hardware.collective_efficiency =
      profile.collective_efficiency.value_or(hardware.collective_efficiency);
}

}  // namespace plimsoll
