// Where the heads of packed attention tensors lie; used by the forms of attention only.
#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/elements.h"

namespace plimsoll::cuda {

struct Heads {
  AttentionShape s;

  __device__ int64_t group() const { return s.heads / s.kv_heads; }
  __device__ int64_t qkv_width() const { return (s.heads + 2 * s.kv_heads) * s.head_dim; }
  __device__ int64_t out_width() const { return s.heads * s.head_dim; }
  // Element 0 of row t in a packed tensor of queries, keys and values (or their gradients).
  __device__ int64_t q(int64_t b, int64_t h, int64_t t) const {
    return (b * s.length + t) * qkv_width() + h * s.head_dim;
  }
  __device__ int64_t k(int64_t b, int64_t kv, int64_t t) const { return q(b, s.heads + kv, t); }
  __device__ int64_t v(int64_t b, int64_t kv, int64_t t) const {
    return q(b, s.heads + s.kv_heads + kv, t);
  }
  __device__ int64_t out(int64_t b, int64_t h, int64_t t) const {
    return (b * s.length + t) * out_width() + h * s.head_dim;
  }
  // Of [B,H,T] tensors.
  __device__ int64_t row(int64_t b, int64_t h, int64_t t) const {
    return (b * s.heads + h) * s.length + t;
  }
  // Index of dropout's draw for query i and key j.
  __device__ uint64_t draw(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const int64_t head = (s.first_sample + b) * s.heads + h;
    return static_cast<uint64_t>((head * s.length + i) * s.length + j);
  }
  __device__ bool sees(int64_t i, int64_t j) const { return j < s.length && (!s.causal || j <= i); }
};

}  // namespace plimsoll::cuda
