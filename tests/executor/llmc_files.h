// Weights and tokens by formula, in llm.c's files: the golden set-up whose losses llm.c and PyTorch
// agree on.
#pragma once

#include "base/rng.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::test {

struct GoldenShape {
  int32_t positions = 64;
  int32_t vocabulary = 256;
  int32_t layers = 2;
  int32_t heads = 4;
  int32_t channels = 64;
  int32_t padded = 256;
};

inline void append_int(std::string& bytes, int32_t value) {
  bytes.append(reinterpret_cast<const char*>(&value), 4);
}

// One array of the model file: w = (u 2^-23 - 1) s with u the top 24 bits of a hash of the
// element's index in the payload; a constant where s is 0.
class GoldenWriter {
 public:
  explicit GoldenWriter(std::string& bytes) : bytes_(bytes) {}
  void hashed(int64_t count, float scale) {
    for (int64_t i = 0; i < count; ++i) {
      const auto top = static_cast<float>(splitmix64(static_cast<uint64_t>(index_) + 1) >> 40);
      write((top * 0x1p-23F - 1.0F) * scale);
    }
  }
  void constant(int64_t count, float value) {
    for (int64_t i = 0; i < count; ++i) write(value);
  }

 private:
  void write(float value) {
    bytes_.append(reinterpret_cast<const char*>(&value), 4);
    ++index_;
  }
  std::string& bytes_;
  int64_t index_ = 0;
};

inline std::string golden_model(const GoldenShape& shape) {
  std::string bytes;
  for (const int32_t value : {20240326, 3, shape.positions, shape.vocabulary, shape.layers,
                              shape.heads, shape.channels, shape.padded}) {
    append_int(bytes, value);
  }
  bytes.resize(1024, '\0');
  const int64_t c = shape.channels;
  const int64_t l = shape.layers;
  const auto wide = static_cast<float>(0.035);
  const auto narrow = static_cast<float>(0.035 / std::sqrt(2.0 * static_cast<double>(l)));
  GoldenWriter writer(bytes);
  writer.hashed(shape.vocabulary * c, wide);
  writer.constant((shape.padded - shape.vocabulary) * c, 0);
  writer.hashed(shape.positions * c, wide);
  writer.constant(l * c, 1);  // ln_1
  writer.constant(l * c, 0);
  writer.hashed(l * 3 * c * c, wide);  // attn.c_attn
  writer.constant(l * 3 * c, 0);
  writer.hashed(l * c * c, narrow);  // attn.c_proj
  writer.constant(l * c, 0);
  writer.constant(l * c, 1);  // ln_2
  writer.constant(l * c, 0);
  writer.hashed(l * 4 * c * c, wide);  // mlp.c_fc
  writer.constant(l * 4 * c, 0);
  writer.hashed(l * 4 * c * c, narrow);  // mlp.c_proj
  writer.constant(l * c, 0);
  writer.constant(c, 1);  // ln_f
  writer.constant(c, 0);
  return bytes;
}

inline std::vector<uint16_t> golden_tokens(int64_t count, int32_t vocabulary) {
  std::vector<uint16_t> tokens;
  for (int64_t j = 0; j < count; ++j) {
    const uint64_t bits = splitmix64(1'000'000'000'000ULL + static_cast<uint64_t>(j) + 1);
    tokens.push_back(static_cast<uint16_t>((bits >> 33) % static_cast<uint64_t>(vocabulary)));
  }
  return tokens;
}

inline std::string token_file(const std::vector<uint16_t>& tokens) {
  std::string bytes;
  append_int(bytes, 20240520);
  append_int(bytes, 1);
  append_int(bytes, static_cast<int32_t>(tokens.size()));
  bytes.resize(1024, '\0');
  bytes.append(reinterpret_cast<const char*>(tokens.data()), 2 * tokens.size());
  return bytes;
}

}  // namespace plimsoll::test
