// Where the heads of packed attention tensors lie, and the dropout of one row of probabilities.
// Used by the two forms of attention only.
#pragma once

#include "kernels/cpu/attention.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/vector_math.h"

#include <cstdint>

namespace plimsoll {

// One query head of one sample, and the key and value head that it reads.
struct HeadIndex {
  int64_t b, h, kv;
};

// First rows [T,D] of a head in a packed [B,T,(H+2G)*D] tensor (of values or gradients).
template <class T>
struct PackedHeads {
  T* q;
  T* k;
  T* v;
};

template <class T>
[[nodiscard]] PackedHeads<T> packed_heads(T* qkv, const AttentionShape& s, HeadIndex i) {
  T* first = qkv + i.b * s.length * s.qkv_width();
  return {first + i.h * s.head_dim, first + (s.heads + i.kv) * s.head_dim,
          first + (s.heads + s.kv_heads + i.kv) * s.head_dim};
}

// First row of a head in o [B,T,H*D].
template <class T>
[[nodiscard]] T* out_head(T* o, const AttentionShape& s, HeadIndex i) {
  return o + i.b * s.length * s.out_width() + i.h * s.head_dim;
}

// Index of a head in [B,H,…] tensors.
[[nodiscard]] inline int64_t head_number(const AttentionShape& s, HeadIndex i) {
  return i.b * s.heads + i.h;
}

// Index of dropout's draw for query `row` and key `column`.
[[nodiscard]] inline uint64_t dropout_index(const AttentionShape& s, HeadIndex i, int64_t row,
                                            int64_t column) {
  const int64_t all = s.all_heads > 0 ? s.all_heads : s.heads;
  const int64_t head = (s.first_sample + i.b) * all + s.first_head + i.h;
  return static_cast<uint64_t>((head * s.length + row) * s.length + column);
}

// to[j] = from[j] times the mask of keys first … first + n of query `row` (to may be from).
template <class T>
void apply_dropout(const T* from, T* to, const AttentionShape& s, HeadIndex i, int64_t row,
                   int64_t first, int64_t n) {
  const uint64_t index = dropout_index(s, i, row, first);
  const T scale = static_cast<T>(s.dropout.scale());
  const DropoutMask mask = s.dropout;
  PLIMSOLL_INDEPENDENT
  for (int64_t j = 0; j < n; ++j) {
    const T kept = from[j] * scale;
    to[j] = mask.keeps(index + static_cast<uint64_t>(j)) ? kept : T{0};
  }
}

// Calls body(HeadIndex) for the query heads that read one key and value head, in order; tasks are
// the B * G key and value heads.
template <class Body>
void for_each_group(const AttentionShape& s, ThreadPool& pool, const Body& body) {
  pool.parallel_for(s.batch * s.kv_heads, [&](int64_t task) {
    const int64_t b = task / s.kv_heads;
    const int64_t kv = task % s.kv_heads;
    for (int64_t h = kv * s.group(); h < (kv + 1) * s.group(); ++h) body(HeadIndex{b, h, kv});
  });
}

}  // namespace plimsoll
