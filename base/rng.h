// Counter-based random numbers: every number is a pure function of (seed, purpose, index).
//
// Nothing here has state, so a plan, a restart or the order in which ranks ask cannot change a
// draw.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll {

// Multiply-and-finalise of splitmix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom
// number generators"): a bijection of 64-bit words whose outputs for consecutive inputs look
// independent.
[[nodiscard]] constexpr uint64_t splitmix64(uint64_t x) {
  x *= 0x9E3779B97F4A7C15ULL;
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ULL;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBULL;
  x ^= x >> 31;
  return x;
}

// FNV-1a over the name of what the number is for ("init:wte", "dropout:h.3.mlp", "order").
[[nodiscard]] constexpr uint64_t rng_purpose(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

// 64 random bits for (seed, purpose, index).
[[nodiscard]] constexpr uint64_t rng_bits(uint64_t seed, uint64_t purpose, uint64_t index) {
  return splitmix64(splitmix64(splitmix64(seed + 1) ^ purpose) + index + 1);
}

// Uniform in [0, 1) with 24 bits, exact as a float.
[[nodiscard]] constexpr float rng_uniform(uint64_t seed, uint64_t purpose, uint64_t index) {
  return static_cast<float>(rng_bits(seed, purpose, index) >> 40) * 0x1p-24F;
}

// Standard normal by Box and Muller from the two halves of one draw.
[[nodiscard]] double rng_normal(uint64_t seed, uint64_t purpose, uint64_t index);

// A permutation of [0, n) evaluated at one point in O(1) memory (cycle-walking Feistel network), so
// that an epoch's order needs no table. Precondition: 0 <= index < n.
[[nodiscard]] uint64_t rng_permute(uint64_t seed, uint64_t purpose, uint64_t n, uint64_t index);

}  // namespace plimsoll
