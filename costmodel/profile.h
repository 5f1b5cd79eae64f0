// Framework profiles: what a framework keeps, in which types, how it lays out gradients, and which
// splits it can run. Data (costmodel/profiles/*.toml, embedded in the binary), so that a dry run
// can speak of the framework that a user has; nothing else in Plimsoll asks a framework's name.
#pragma once

#include "base/dtype.h"
#include "costmodel/hardware.h"
#include "models/model.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// Types of what training keeps beside the weights, which have the type of computation.
struct StateTypes {
  DType gradients = DType::kF32;
  bool master_weights = false;  // an f32 copy, counted as optimizer
  DType moments = DType::kF32;
  friend bool operator==(const StateTypes&, const StateTypes&) = default;
};

struct GradientBuffers {
  bool contiguous = false;         // one buffer that lives for the whole run; else one a tensor
  int64_t bucket_elements = 0;     // a bucket closes at this size; 0: one bucket
  int64_t alignment_elements = 1;  // of each parameter's start
  int64_t sharded_multiple_elements = 1;  // see padded_elements
  friend bool operator==(const GradientBuffers&, const GradientBuffers&) = default;
};

// What the framework can run; what is not named is planned for it never.
struct ProfileRuns {
  std::vector<std::string> parallel;  // of dp, tp, pp, cp, ep
  bool sequence_parallel = false;
  std::vector<int64_t> zero;
  std::vector<std::string> recompute;  // of none, selective, full, optimal
  std::vector<std::string> schedules;
  std::vector<std::string> offload;  // of optimizer, activations
  bool mixed_recompute = false;      // layers of one stage may differ
  friend bool operator==(const ProfileRuns&, const ProfileRuns&) = default;
};

struct Profile {
  std::string name;   // "megatron", the name on the command line
  std::string title;  // "Megatron-LM of 2022"
  std::string source;
  SaveRules save_rules;
  std::string attention;  // "flash" or "naive"
  // Ops of the graph that selective recompute runs again: all that they save but their first
  // output.
  std::vector<std::string> selective_ops;
  StateTypes half;    // where computation is in bf16 or f16
  StateTypes single;  // where it is in f32
  GradientBuffers gradient_buffers;
  ProfileRuns runs;
  // Attainable parts of a device's peaks, where the framework's differ from the hardware
  // catalogue's.
  std::optional<double> matmul_efficiency;
  std::optional<double> memory_efficiency;
  std::optional<double> collective_efficiency;
};

// All profiles, by name.
[[nodiscard]] const std::vector<Profile>& all_profiles();

// Throws Error (exit 2) with the nearest spelling when there is none of that name.
[[nodiscard]] const Profile& find_profile(std::string_view name);

// The types of a precision of computation (f64 is kept as f32 is, in its own type).
[[nodiscard]] StateTypes state_types(const Profile& profile, DType precision);

struct BytesPerParameter {
  int64_t weights = 0, gradients = 0, master_weights = 0, moments = 0;
  [[nodiscard]] int64_t total() const { return weights + gradients + master_weights + moments; }
};
// Before any sharding. `num_moments` is 2 for Adam.
[[nodiscard]] BytesPerParameter bytes_per_parameter(const Profile& profile, DType precision,
                                                    int64_t num_moments = 2);

// Elements of a gradient buffer whose parameters take `elements` (aligned already): with sharded
// optimizer states rounded up to a multiple of lcm(ranks, sharded_multiple_elements).
[[nodiscard]] int64_t padded_elements(const GradientBuffers& buffers, int64_t elements,
                                      int64_t sharding_ranks);

// Fills in what a framework decides about a model's graph: save rules and the form of attention.
void apply_profile(const Profile& profile, BuildOptions& options);

// Puts the profile's efficiencies in place of the device's.
void apply_profile(const Profile& profile, Hardware& hardware);

namespace internal {

struct ProfileText {
  std::string_view name;
  std::string_view text;
};
// The files of costmodel/profiles/; the build turns them into this function.
[[nodiscard]] std::vector<ProfileText> embedded_profiles();

// A profile from TOML. All keys but [efficiencies] are required; an unknown key or word, a wrong
// type and a value out of range are Errors (exit 2) with file, line and column.
[[nodiscard]] Profile parse_profile(std::string_view name, std::string_view text,
                                    std::string_view file);

}  // namespace internal

}  // namespace plimsoll
