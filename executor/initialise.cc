#include "executor/initialise.h"

#include "base/error.h"
#include "base/rng.h"
#include "executor/logical_box.h"

#include <string>

namespace plimsoll {

namespace {

// Continues the hash of rng_purpose, so that "init:" and a name need no joined string.
uint64_t init_purpose(const std::string& name) {
  uint64_t hash = rng_purpose("init:");
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

struct Draw {
  const Initialiser& initialiser;
  uint64_t seed = 0;
  uint64_t purpose = 0;
  int64_t row_length = 1;  // of the whole tensor

  [[nodiscard]] double operator()(int64_t index) const {
    const auto key = static_cast<uint64_t>(index);
    switch (initialiser.kind) {
      case Initialiser::Kind::kZero:
        return 0;
      case Initialiser::Kind::kOne:
        return 1;
      case Initialiser::Kind::kNormal:
        return rng_normal(seed, purpose, key) * initialiser.scale;
      case Initialiser::Kind::kUniform:
        return (2.0 * static_cast<double>(rng_uniform(seed, purpose, key)) - 1.0) *
               initialiser.scale;
      case Initialiser::Kind::kRunning:
        return index < row_length ? 0 : 1;
    }
    return 0;
  }
};

template <typename T>
void fill_part(const LogicalPart& part, const Draw& draw, T* values, ThreadPool& pool) {
  const int64_t length = box_row_length(part);
  const int64_t rows = num_box_rows(part);
  // About 16,000 elements a task.
  const int64_t grain = length >= 16384 ? 1 : 16384 / length;
  pool.parallel_ranges(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = global_index_of_row(part, row);
      for (int64_t i = 0; i < length; ++i) {
        values[row * length + i] = static_cast<T>(draw(first + i));
      }
    }
  });
}

template <typename T>
void fill_parts(const LogicalTensor& tensor, T* values, uint64_t seed, ThreadPool& pool) {
  for (const LogicalPart& part : tensor.parts) {
    const Draw draw{tensor.initialiser, seed, init_purpose(part.name),
                    part.global_shape.empty() ? 1 : part.global_shape.back()};
    fill_part(part, draw, values, pool);
    values += num_elements(part.box_extent);
  }
}

}  // namespace

void initialise_buffer(const LogicalTensor& tensor, const Operand& out, uint64_t seed,
                       ThreadPool& pool) {
  if (out.dtype == DType::kF32) {
    fill_parts(tensor, out.as<float>(), seed, pool);
  } else if (out.dtype == DType::kF64) {
    fill_parts(tensor, out.as<double>(), seed, pool);
  } else {
    throw bad_input(fmt::format("initialise: a buffer of {}; the cpu backend initialises f32, f64",
                                dtype_name(out.dtype)));
  }
}

}  // namespace plimsoll
