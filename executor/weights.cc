#include "executor/weights.h"

#include "base/error.h"
#include "executor/llmc_model.h"
#include "executor/logical_box.h"
#include "executor/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace plimsoll {

namespace {

template <typename T>
T load_raw(const std::byte* at) {
  T value{};
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// IEEE half precision: sign, 5 bits of exponent (bias 15), 10 of fraction.
float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16;
  const uint32_t exponent = (half >> 10) & 0x1FU;
  const uint32_t fraction = half & 0x3FFU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 31 ? 0x7F800000U : (exponent + 112) << 23;
  return std::bit_cast<float>(sign | wide | (fraction << 13));
}

// Element `index` of an array of floats of any width.
double element(const std::byte* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kF64:
      return load_raw<double>(data + 8 * index);
    case DType::kF32:
      return load_raw<float>(data + 4 * index);
    case DType::kF16:
      return half_to_float(load_raw<uint16_t>(data + 2 * index));
    case DType::kBF16:
      return std::bit_cast<float>(static_cast<uint32_t>(load_raw<uint16_t>(data + 2 * index))
                                  << 16);
    case DType::kI64:
    case DType::kI32:
    case DType::kU16:
    case DType::kU8:
      break;
  }
  PLIMSOLL_CHECK(false, "{} is no float type", dtype_name(dtype));
  return 0;
}

bool is_float(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kF16 ||
         dtype == DType::kBF16;
}

std::string name_in_file(const LogicalPart& part, const TensorFile& file) {
  for (const char* prefix : {"", "transformer."}) {
    std::string name = prefix + part.name;
    if (file.find(name)) return name;
  }
  throw bad_input(fmt::format("{}: no tensor '{}'", file.path(), part.name),
                  "the file belongs to another model");
}

template <typename T>
void copy_box(const PersistentPart& to, const std::byte* from, DType dtype, bool transposed) {
  const LogicalPart& part = *to.part;
  // Of the whole tensor, when it has two dimensions.
  const int64_t all_rows = transposed ? part.global_shape[0] : 0;
  const int64_t all_columns = transposed ? part.global_shape[1] : 1;
  for_each_run(part, to.first, to.count, [&](int64_t global, int64_t offset, int64_t count) {
    T* values = reinterpret_cast<T*>(to.data) + offset;
    for (int64_t i = 0; i < count; ++i) {
      int64_t index = global + i;
      if (transposed) index = index % all_columns * all_rows + index / all_columns;
      values[i] = static_cast<T>(element(from, dtype, index));
    }
  });
}

}  // namespace

std::vector<PersistentPart> persistent_parts(const Interpreter& interpreter) {
  std::vector<PersistentPart> parts;
  const std::vector<Buffer>& buffers = interpreter.program().buffers;
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (!buffers[b].persistent || !buffers[b].logical) continue;
    const Operand operand = interpreter.operand(static_cast<int>(b));
    auto* data = operand.as<std::byte>();
    const LogicalTensor& logical = *buffers[b].logical;
    for_each_held_part(logical, interpreter.program().header.coordinates.dp,
                       [&](const LogicalPart& part, const HeldRange& held) {
                         parts.push_back({&part, logical.role, operand.dtype,
                                          data + held.offset * dtype_bytes(operand.dtype),
                                          held.first, held.count});
                       });
  }
  return parts;
}

void copy_to_whole(const PersistentPart& part, std::byte* whole) {
  const int64_t width = dtype_bytes(part.dtype);
  for_each_run(*part.part, part.first, part.count,
               [&](int64_t index, int64_t offset, int64_t count) {
                 std::copy_n(part.data + offset * width, count * width, whole + index * width);
               });
}

std::unique_ptr<TensorFile> open_tensor_file(const std::string& path) {
  if (LlmcModelFile::recognise(path)) return std::make_unique<LlmcModelFile>(path);
  return std::make_unique<SafetensorsFile>(path);
}

void load_part(const PersistentPart& part, const TensorFile& file) {
  const std::string name = name_in_file(*part.part, file);
  const StoredTensor stored = *file.find(name);
  const Shape& here = part.part->global_shape;
  const bool transposed = part.part->transposed && here.size() == 2 && !file.linear_is_out_in();
  const Shape expected = transposed ? Shape{here[1], here[0]} : here;
  if (stored.shape != expected) {
    throw bad_input(fmt::format("{}: tensor '{}' is {}, the model has {}", file.path(), name,
                                shape_text(stored.shape), shape_text(expected)),
                    "the file belongs to another model");
  }
  if (!stored.dtype || !is_float(*stored.dtype)) {
    throw bad_input(fmt::format("{}: tensor '{}' is {}, which is no float type", file.path(), name,
                                stored.type_name));
  }
  const std::vector<std::byte> bytes = file.read(name);
  if (part.dtype == DType::kF32) {
    copy_box<float>(part, bytes.data(), *stored.dtype, transposed);
  } else if (part.dtype == DType::kF64) {
    copy_box<double>(part, bytes.data(), *stored.dtype, transposed);
  } else {
    throw bad_input(
        fmt::format("tensor '{}' as {}: planned but cannot be run by the cpu backend yet", name,
                    dtype_name(part.dtype)));
  }
}

void load_parameters(const std::vector<PersistentPart>& parts, const TensorFile& file) {
  for (const PersistentPart& part : parts) {
    const bool optional_state = part.role == "state" && file.find(part.part->name).has_value();
    if (part.role == "parameter" || optional_state) load_part(part, file);
  }
}

}  // namespace plimsoll
