#include "executor/initialise.h"

#include "base/error.h"
#include "base/rng.h"
#include "executor/logical_box.h"

#include <algorithm>
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
void fill_range(const LogicalPart& part, const HeldRange& held, const Draw& draw, T* values,
                ThreadPool& pool) {
  constexpr int64_t kGrain = 16384;  // elements a task
  pool.parallel_ranges(held.count, kGrain, [&](int64_t begin, int64_t end) {
    for_each_run(part, held.first + begin, end - begin,
                 [&](int64_t index, int64_t offset, int64_t count) {
                   T* out = values + held.offset + begin + offset;
                   for (int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(draw(index + i));
                 });
  });
}

template <typename T>
void fill_parts(const LogicalTensor& tensor, const Operand& out, uint64_t seed, int dp_place,
                ThreadPool& pool) {
  T* values = out.as<T>();
  int64_t end = 0;
  for_each_held_part(tensor, dp_place, [&](const LogicalPart& part, const HeldRange& held) {
    const Draw draw{tensor.initialiser, seed, init_purpose(part.name),
                    part.global_shape.empty() ? 1 : part.global_shape.back()};
    fill_range(part, held, draw, values, pool);
    end = held.offset + held.count;
  });
  std::fill(values + end, values + out.size(), T{0});
}

}  // namespace

void initialise_buffer(const LogicalTensor& tensor, const Operand& out, uint64_t seed,
                       ThreadPool& pool, int dp_place) {
  if (out.dtype == DType::kF32) {
    fill_parts<float>(tensor, out, seed, dp_place, pool);
  } else if (out.dtype == DType::kF64) {
    fill_parts<double>(tensor, out, seed, dp_place, pool);
  } else {
    throw bad_input(fmt::format("initialise: a buffer of {}; the cpu backend initialises f32, f64",
                                dtype_name(out.dtype)));
  }
}

}  // namespace plimsoll
