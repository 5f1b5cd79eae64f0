#include "executor/safetensors.h"

#include "base/error.h"
#include "executor/durable_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

namespace plimsoll {

namespace {

using nlohmann::json;

// The length and the tensors are read as they lie in the file.
static_assert(std::endian::native == std::endian::little);

constexpr int64_t kMostHeaderBytes = 100'000'000;  // of the format

struct TypeName {
  std::string_view name;
  int64_t bytes;
  std::optional<DType> dtype;
};

constexpr std::array<TypeName, 16> kTypes = {{{"F64", 8, DType::kF64},
                                              {"F32", 4, DType::kF32},
                                              {"BF16", 2, DType::kBF16},
                                              {"F16", 2, DType::kF16},
                                              {"I64", 8, DType::kI64},
                                              {"I32", 4, DType::kI32},
                                              {"U16", 2, DType::kU16},
                                              {"U8", 1, DType::kU8},
                                              {"U64", 8, std::nullopt},
                                              {"U32", 4, std::nullopt},
                                              {"I16", 2, std::nullopt},
                                              {"I8", 1, std::nullopt},
                                              {"BOOL", 1, std::nullopt},
                                              {"F8_E4M3", 1, std::nullopt},
                                              {"F8_E5M2", 1, std::nullopt},
                                              {"F8_E8M0", 1, std::nullopt}}};

std::string_view type_name(DType dtype) {
  for (const TypeName& type : kTypes) {
    if (type.dtype == dtype) return type.name;
  }
  return "?";
}

// A JSON number as a size; nothing when it is no whole number from 0 to 2^63 - 1.
std::optional<int64_t> as_size(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.get<uint64_t>();
  if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::optional<Shape> as_sizes(const json& value) {
  if (!value.is_array()) return std::nullopt;
  Shape sizes;
  for (const json& one : value) {
    const std::optional<int64_t> size = as_size(one);
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

json parse_header(const std::string& text, const std::string& path) {
  std::set<std::string> names;
  std::string twice;
  const auto see = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::key && depth == 1 &&
        !names.insert(parsed.get<std::string>()).second) {
      twice = parsed.get<std::string>();
    }
    return true;
  };
  json header = json::parse(text, see, false);
  if (header.is_discarded() || !header.is_object() || text.front() != '{') {
    throw bad_input(fmt::format("{}: offset 8: the header is no JSON object", path));
  }
  if (!twice.empty()) throw bad_input(fmt::format("{}: two tensors are named '{}'", path, twice));
  return header;
}

// Copies a [rows, columns] array of `width`-byte elements to [columns, rows].
void transpose(const std::byte* from, int64_t rows, int64_t columns, int64_t width, std::byte* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      std::memcpy(to + (c * rows + r) * width, from + (r * columns + c) * width,
                  static_cast<size_t>(width));
    }
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  uint64_t length = 0;
  if (file_.size() < 8) {
    throw bad_input(
        fmt::format("{}: {} bytes are too few for a safetensors file", path, file_.size()));
  }
  file_.read(0, 8, &length);
  if (length < 2 || length > static_cast<uint64_t>(kMostHeaderBytes) ||
      static_cast<int64_t>(length) > file_.size() - 8) {
    throw bad_input(fmt::format("{}: offset 0: a header of {} bytes in a file of {}", path, length,
                                file_.size()),
                    "this is no safetensors file, or it is cut off");
  }
  data_offset_ = 8 + static_cast<int64_t>(length);
  std::string text(static_cast<size_t>(length), '\0');
  file_.read(8, static_cast<int64_t>(length), text.data());

  const json header = parse_header(text, path);
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    const auto bad = [&, &tensor = name](std::string_view why) {
      return bad_input(fmt::format("{}: tensor '{}': {}", path, tensor, why));
    };
    if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() ||
        !value.contains("shape") || !value.contains("data_offsets")) {
      throw bad("needs dtype, shape and data_offsets");
    }
    Entry entry;
    entry.tensor.type_name = value["dtype"].get<std::string>();
    const auto* type = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeName& known) {
      return known.name == entry.tensor.type_name;
    });
    if (type == kTypes.end()) throw bad("unknown dtype " + entry.tensor.type_name);
    entry.tensor.dtype = type->dtype;
    const std::optional<Shape> shape = as_sizes(value["shape"]);
    const std::optional<Shape> offsets = as_sizes(value["data_offsets"]);
    if (!shape) throw bad("shape is no list of sizes");
    if (!offsets || offsets->size() != 2) throw bad("data_offsets is no pair of sizes");
    entry.tensor.shape = *shape;
    entry.begin = (*offsets)[0];
    entry.end = (*offsets)[1];
    const int64_t bytes = checked_mul(num_elements(*shape), type->bytes);
    if (entry.end < entry.begin || entry.end - entry.begin != bytes) {
      throw bad(fmt::format("data_offsets {} to {} are not the {} bytes of {} {}", entry.begin,
                            entry.end, bytes, type->name, shape_text(*shape)));
    }
    entries_.emplace(name, std::move(entry));
  }
  check_tiling();
}

void SafetensorsFile::check_tiling() const {
  std::vector<std::pair<int64_t, const std::pair<const std::string, Entry>*>> sorted;
  for (const auto& named : entries_) sorted.emplace_back(named.second.begin, &named);
  // An empty tensor comes before the one that begins where it does.
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second->second.end) < std::pair(b.first, b.second->second.end);
  });
  int64_t at = 0;
  for (const auto& [begin, named] : sorted) {
    if (begin != at) {
      throw bad_input(
          fmt::format("{}: tensor '{}' begins at {} of the data, expected {}: the "
                      "tensors {}",
                      path(), named->first, begin, at, begin < at ? "overlap" : "leave a hole"));
    }
    at = named->second.end;
  }
  if (at != file_.size() - data_offset_) {
    throw bad_input(fmt::format("{}: {} bytes of tensors, the header speaks of {}", path(),
                                file_.size() - data_offset_, at),
                    "the file is cut off or has been added to");
  }
}

std::optional<StoredTensor> SafetensorsFile::find(const std::string& name) const {
  const auto at = entries_.find(name);
  if (at == entries_.end()) return std::nullopt;
  return at->second.tensor;
}

std::vector<std::byte> SafetensorsFile::read(const std::string& name) const {
  const Entry& entry = entries_.at(name);
  std::vector<std::byte> bytes(static_cast<size_t>(entry.end - entry.begin));
  file_.read(data_offset_ + entry.begin, entry.end - entry.begin, bytes.data());
  return bytes;
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

WrittenFile write_safetensors(const std::string& path, const std::vector<TensorToWrite>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t at = 0;
  for (const TensorToWrite& tensor : tensors) {
    PLIMSOLL_CHECK(!header.contains(tensor.name), "two tensors are named {}", tensor.name);
    const int64_t end =
        checked_add(at, checked_mul(num_elements(tensor.shape), dtype_bytes(tensor.dtype)));
    header[tensor.name] = {
        {"dtype", type_name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.empty() ? "{}" : header.dump();
  text.resize(static_cast<size_t>(align_up(static_cast<int64_t>(text.size()), 8)), ' ');

  DurableFile file(path);
  const auto length = static_cast<uint64_t>(text.size());
  file.write(&length, 8);
  file.write(text);
  std::vector<std::byte> turned;
  std::vector<std::byte> assembled;
  for (const TensorToWrite& tensor : tensors) {
    const int64_t width = dtype_bytes(tensor.dtype);
    const int64_t bytes = num_elements(tensor.shape) * width;
    const std::byte* data = tensor.data;
    if (data == nullptr) {
      assembled.resize(static_cast<size_t>(bytes));
      tensor.assemble(assembled.data());
      data = assembled.data();
    }
    if (tensor.transpose) {
      turned.resize(static_cast<size_t>(bytes));
      transpose(data, tensor.shape.at(1), tensor.shape.at(0), width, turned.data());
      data = turned.data();
    }
    file.write(data, bytes);
  }
  const DurableFile::Written written = file.finish();
  return {written.bytes, written.sha256};
}

}  // namespace plimsoll
