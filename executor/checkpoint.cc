#include "executor/checkpoint.h"

#include "base/error.h"
#include "base/files.h"
#include "executor/durable_file.h"
#include "executor/logical_box.h"
#include "executor/safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>

namespace plimsoll {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kPrefix = "step_";
constexpr const char* kManifest = "manifest.json";
constexpr std::array<const char*, 2> kFiles = {"model.safetensors", "optimizer.safetensors"};

bool in_model_file(const std::string& role) { return role == "parameter" || role == "state"; }

// What all ranks hold of one tensor.
struct HeldTensor {
  std::vector<const PersistentPart*> parts;

  [[nodiscard]] const LogicalPart& logical() const { return *parts.front()->part; }
  [[nodiscard]] int64_t elements() const { return num_elements(logical().global_shape); }
  // A part that is the whole tensor, or null.
  [[nodiscard]] const PersistentPart* whole() const {
    const auto at = std::find_if(parts.begin(), parts.end(), [this](const PersistentPart* part) {
      return part->count == elements();
    });
    return at == parts.end() ? nullptr : *at;
  }
};

void require_all_elements(const HeldTensor& tensor) {
  std::vector<bool> held(static_cast<size_t>(tensor.elements()));
  for (const PersistentPart* part : tensor.parts) {
    for_each_run(*part->part, part->first, part->count,
                 [&](int64_t index, int64_t /*offset*/, int64_t count) {
                   std::fill_n(held.begin() + index, count, true);
                 });
  }
  const auto missing = std::find(held.begin(), held.end(), false);
  if (missing == held.end()) return;
  throw bad_input(fmt::format("tensor '{}': no rank of this run holds its element {}",
                              tensor.logical().name, missing - held.begin()));
}

std::vector<TensorToWrite> tensors_of(const std::vector<PersistentPart>& parts, bool model) {
  std::map<std::string, size_t> index;
  std::vector<HeldTensor> held;
  for (const PersistentPart& part : parts) {
    if (in_model_file(part.role) != model) continue;
    const auto [at, is_new] = index.try_emplace(part.part->name, held.size());
    if (is_new) held.emplace_back();
    held[at->second].parts.push_back(&part);
  }
  std::vector<TensorToWrite> tensors;
  for (const HeldTensor& tensor : held) {
    const LogicalPart& logical = tensor.logical();
    const bool transpose = logical.transposed && logical.global_shape.size() == 2;
    Shape shape = logical.global_shape;
    if (transpose) std::swap(shape[0], shape[1]);
    const PersistentPart* whole = tensor.whole();
    TensorToWrite& made = tensors.emplace_back();
    made = {.name = logical.name,
            .dtype = tensor.parts.front()->dtype,
            .shape = std::move(shape),
            .data = whole == nullptr ? nullptr : whole->data,
            .transpose = transpose,
            .assemble = {}};
    if (whole != nullptr) continue;
    require_all_elements(tensor);
    made.assemble = [tensor](std::byte* out) {
      for (const PersistentPart* part : tensor.parts) copy_to_whole(*part, out);
    };
  }
  return tensors;
}

json to_json(const RunState& state) {
  json manifest = {{"plimsoll_checkpoint", 1},
                   {"step", state.step},
                   {"seed", state.seed},
                   {"samples", state.samples},
                   {"noise",
                    {{"signal_sum", state.noise.signal_sum},
                     {"noise_sum", state.noise.noise_sum},
                     {"weight", state.noise.weight}}},
                   {"best_validation_loss", nullptr},
                   {"stale_evaluations", state.stale_evaluations},
                   {"plan_hash", state.plan_hash}};
  if (state.best_validation_loss) manifest["best_validation_loss"] = *state.best_validation_loss;
  return manifest;
}

// Throws json::exception when something is missing.
RunState from_json(const json& manifest) {
  RunState state;
  if (manifest.at("plimsoll_checkpoint").get<int>() != 1) throw bad_input("unknown version");
  state.step = manifest.at("step").get<int64_t>();
  state.seed = manifest.at("seed").get<uint64_t>();
  state.samples = manifest.at("samples").get<int64_t>();
  const json& noise = manifest.at("noise");
  state.noise = {noise.at("signal_sum").get<double>(), noise.at("noise_sum").get<double>(),
                 noise.at("weight").get<double>()};
  if (const json& best = manifest.at("best_validation_loss"); !best.is_null()) {
    state.best_validation_loss = best.get<double>();
  }
  state.stale_evaluations = manifest.at("stale_evaluations").get<int64_t>();
  state.plan_hash = manifest.at("plan_hash").get<std::string>();
  if (state.step < 0 || state.samples < 0 || state.stale_evaluations < 0) {
    throw bad_input("a count is negative");
  }
  return state;
}

std::optional<int64_t> step_of_name(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const char* begin = name.data() + std::char_traits<char>::length(kPrefix);
  const char* end = name.data() + name.size();
  int64_t step = 0;
  const auto [stop, error] = std::from_chars(begin, end, step);
  if (error != std::errc{} || stop != end || step < 0) return std::nullopt;
  return step;
}

// Folders of checkpoints by step, newest first.
std::vector<std::pair<int64_t, fs::path>> list_checkpoints(const std::string& folder) {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (const auto step = step_of_name(at->path().filename().string())) {
      found.emplace_back(*step, at->path());
    }
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

// Throws Error or json::exception saying what is wrong with the checkpoint.
RunState read_complete(const fs::path& path) {
  const json manifest = json::parse(read_file((path / kManifest).string(), int64_t{1} << 24));
  const RunState state = from_json(manifest);
  for (const char* name : kFiles) {
    const json& file = manifest.at("files").at(name);
    const std::string file_path = (path / name).string();
    if (sha256_of_file(file_path) != file.at("sha256").get<std::string>()) {
      throw bad_input(fmt::format("{}: its SHA-256 is not that of the manifest", file_path));
    }
  }
  return state;
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw run_failed(fmt::format("cannot make {}: {}", path.string(), error.message()));
}

void rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) {
    throw run_failed(
        fmt::format("cannot rename {} to {}: {}", from.string(), to.string(), error.message()));
  }
}

void write_files(const fs::path& path, const RunState& state,
                 const std::vector<PersistentPart>& parts) {
  json manifest = to_json(state);
  for (size_t i = 0; i < kFiles.size(); ++i) {
    const WrittenFile written = write_safetensors((path / kFiles[i]).string(),
                                                  tensors_of(parts, i == 0), {{"format", "pt"}});
    manifest["files"][kFiles[i]] = {{"bytes", written.bytes}, {"sha256", written.sha256}};
  }
  write_file((path / kManifest).string(), manifest.dump(1) + "\n");
  sync_folder(path.string());
}

}  // namespace

std::string save_checkpoint(const std::string& folder, const RunState& state,
                            const std::vector<PersistentPart>& parts, int keep) {
  const std::string name = fmt::format("{}{:08}", kPrefix, state.step);
  const fs::path final_path = fs::path(folder) / name;
  const fs::path temporary = fs::path(folder) / ("." + name + ".tmp");
  const fs::path replaced = fs::path(folder) / ("." + name + ".old");
  std::error_code ignored;
  fs::remove_all(temporary, ignored);
  fs::remove_all(replaced, ignored);
  make_folder(temporary);
  try {
    write_files(temporary, state, parts);
    if (fs::exists(final_path)) rename_folder(final_path, replaced);
    rename_folder(temporary, final_path);
  } catch (const Error&) {
    fs::remove_all(temporary, ignored);
    throw;
  }
  sync_folder(folder);
  fs::remove_all(replaced, ignored);
  const auto all = list_checkpoints(folder);
  for (size_t i = static_cast<size_t>(std::max(1, keep)); i < all.size(); ++i) {
    fs::remove_all(all[i].second, ignored);
  }
  return final_path.string();
}

FoundCheckpoint find_newest_checkpoint(const std::string& folder) {
  FoundCheckpoint found;
  for (const auto& [step, path] : list_checkpoints(folder)) {
    try {
      found.checkpoint = Checkpoint{path.string(), read_complete(path)};
      return found;
    } catch (const Error& error) {
      found.warnings.push_back(
          fmt::format("{} is not complete and passed over: {}", path.string(), error.what()));
    } catch (const json::exception& error) {
      found.warnings.push_back(
          fmt::format("{} is not complete and passed over: {}", path.string(), error.what()));
    }
  }
  return found;
}

void load_checkpoint(const Checkpoint& checkpoint, const std::vector<PersistentPart>& parts) {
  const SafetensorsFile model((fs::path(checkpoint.path) / kFiles[0]).string());
  const SafetensorsFile optimizer((fs::path(checkpoint.path) / kFiles[1]).string());
  for (const PersistentPart& part : parts) {
    load_part(part, in_model_file(part.role) ? model : optimizer);
  }
}

}  // namespace plimsoll
