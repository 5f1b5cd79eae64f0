#include "executor/llmc_model.h"

#include "base/error.h"

#include <array>
#include <bit>

namespace plimsoll {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr int32_t kMagic = 20240326;
constexpr int32_t kVersionF32 = 3;
constexpr int64_t kHeaderBytes = 1024;

struct StackedArray {
  const char* name;  // behind "h.<layer>."
  Shape shape;       // of one layer
};

}  // namespace

bool LlmcModelFile::recognise(const std::string& path) {
  const FileReader file(path);
  int32_t magic = 0;
  if (file.size() >= 4) file.read(0, 4, &magic);
  return magic == kMagic;
}

LlmcModelFile::LlmcModelFile(const std::string& path) : file_(path) {
  if (file_.size() < kHeaderBytes) {
    throw bad_input(fmt::format("{}: offset {}: ends inside its header of {} bytes", path,
                                file_.size(), kHeaderBytes));
  }
  std::array<int32_t, 8> header{};
  file_.read(0, sizeof(header), header.data());
  if (header[0] != kMagic) {
    throw bad_input(fmt::format("{}: offset 0: magic {} is no GPT-2 model", path, header[0]));
  }
  if (header[1] != kVersionF32) {
    throw bad_input(fmt::format("{}: offset 4: version {}; version {} (f32) can be read", path,
                                header[1], kVersionF32));
  }
  constexpr std::array<const char*, 8> kNames = {
      "", "", "positions", "vocabulary", "layers", "heads", "channels", "padded vocabulary"};
  for (size_t i = 2; i < header.size(); ++i) {
    if (header[i] < 1) {
      throw bad_input(fmt::format("{}: offset {}: {} {}", path, 4 * i, header[i], kNames[i]));
    }
  }
  const int64_t positions = header[2];
  const int64_t vocabulary = header[3];
  const int64_t layers = header[4];
  const int64_t channels = header[6];
  const int64_t padded = header[7];
  if (padded < vocabulary) {
    throw bad_input(
        fmt::format("{}: offset 28: a vocabulary of {} padded to {}", path, vocabulary, padded));
  }

  // Sizes first: what the header promises may be more than the file, or more than memory.
  const int64_t square = checked_mul(channels, channels);
  const int64_t per_layer = checked_add(checked_mul(12, square), checked_mul(13, channels));
  const int64_t tables = checked_mul(checked_add(padded, positions), channels);
  const int64_t elements =
      checked_add(checked_add(tables, checked_mul(layers, per_layer)), checked_mul(2, channels));
  const int64_t expected = checked_add(kHeaderBytes, checked_mul(4, elements));
  if (file_.size() != expected) {
    throw bad_input(
        fmt::format("{}: offset {}: the header promises {} bytes in all, the file has {}", path,
                    std::min(file_.size(), expected), expected, file_.size()),
        "the file is cut off or has been added to");
  }

  int64_t offset = kHeaderBytes;
  const auto add = [&](const std::string& name, const Shape& shape, int64_t stored_elements) {
    entries_[name] = {shape, offset};
    offset += 4 * stored_elements;
  };
  const int64_t c = channels;
  add("wte.weight", {vocabulary, c}, padded * c);
  add("wpe.weight", {positions, c}, positions * c);
  const std::array<StackedArray, 12> stacked = {{{"ln_1.weight", {c}},
                                                 {"ln_1.bias", {c}},
                                                 {"attn.c_attn.weight", {3 * c, c}},
                                                 {"attn.c_attn.bias", {3 * c}},
                                                 {"attn.c_proj.weight", {c, c}},
                                                 {"attn.c_proj.bias", {c}},
                                                 {"ln_2.weight", {c}},
                                                 {"ln_2.bias", {c}},
                                                 {"mlp.c_fc.weight", {4 * c, c}},
                                                 {"mlp.c_fc.bias", {4 * c}},
                                                 {"mlp.c_proj.weight", {c, 4 * c}},
                                                 {"mlp.c_proj.bias", {c}}}};
  for (const StackedArray& array : stacked) {
    for (int64_t layer = 0; layer < layers; ++layer) {
      add(fmt::format("h.{}.{}", layer, array.name), array.shape, num_elements(array.shape));
    }
  }
  add("ln_f.weight", {c}, c);
  add("ln_f.bias", {c}, c);
}

std::optional<StoredTensor> LlmcModelFile::find(const std::string& name) const {
  const auto at = entries_.find(name);
  if (at == entries_.end()) return std::nullopt;
  return StoredTensor{DType::kF32, "F32", at->second.shape};
}

std::vector<std::byte> LlmcModelFile::read(const std::string& name) const {
  const Entry& entry = entries_.at(name);
  const int64_t bytes = 4 * num_elements(entry.shape);
  std::vector<std::byte> read(static_cast<size_t>(bytes));
  file_.read(entry.offset, bytes, read.data());
  return read;
}

}  // namespace plimsoll
