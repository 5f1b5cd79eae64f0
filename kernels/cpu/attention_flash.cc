#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_heads.h"
#include "kernels/cpu/elementwise.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace plimsoll {
namespace {

// Tiles that live on the stack of a task: 32 KiB of floats each.
constexpr int64_t kQueryTile = 64;
constexpr int64_t kKeyTile = 128;

template <class T>
T score_scale(const AttentionShape& s) {
  return static_cast<T>(1 / std::sqrt(static_cast<double>(s.head_dim)));
}

// The queries and keys of one tile, [first, first + count).
struct Tile {
  int64_t query, num_queries;
  int64_t key, num_keys;
};

// body(tile) for the tiles that some query of [query, query + num_queries) may look at, keys
// ascending.
template <class Body>
void for_each_key_tile(const AttentionShape& s, int64_t query, int64_t num_queries,
                       const Body& body) {
  const int64_t end = s.causal ? query + num_queries : s.length;
  for (int64_t key = 0; key < end; key += kKeyTile) {
    body(Tile{query, num_queries, key, std::min(kKeyTile, end - key)});
  }
}

// Keys of the tile that query `row` of the tile may look at.
int64_t visible_keys(const AttentionShape& s, const Tile& t, int64_t row) {
  if (!s.causal) return t.num_keys;
  return std::clamp<int64_t>(t.query + row + 1 - t.key, 0, t.num_keys);
}

template <class T>
void tile_scores(const AttentionShape& s, const Tile& t, PackedHeads<const T> heads, T* scores) {
  const int64_t width = s.qkv_width();
  gemm<T>(t.num_queries, t.num_keys, s.head_dim, score_scale<T>(s),
          {heads.q + t.query * width, width}, {heads.k + t.key * width, width, true}, false, scores,
          kKeyTile);
}

// Takes one more tile of keys into the running softmax of a block of queries: o holds the sum of
// exp(score - largest) * v so far, total the sum of exp(score - largest).
template <class T>
void add_tile(const AttentionShape& s, const Tile& t, HeadIndex i, PackedHeads<const T> heads, T* o,
              T* largest, T* total) {
  T scores[kQueryTile * kKeyTile];
  tile_scores(s, t, heads, scores);
  for (int64_t r = 0; r < t.num_queries; ++r) {
    T* row = scores + r * kKeyTile;
    const int64_t visible = visible_keys(s, t, r);
    std::fill(row + visible, row + t.num_keys, -std::numeric_limits<T>::infinity());
    const T before = largest[r];
    const T now = std::max(before, max_element(row, visible));
    const T shrink = exp_value(before - now);  // 0 in the first tile, where before = -infinity
    for (int64_t j = 0; j < t.num_keys; ++j) row[j] = exp_value(row[j] - now);
    total[r] = total[r] * shrink + sum(row, t.num_keys);
    largest[r] = now;
    if (s.dropout.active()) apply_dropout(row, row, s, i, t.query + r, t.key, t.num_keys);
    if (t.key == 0 || now == before) continue;
    T* out = o + (t.query + r) * s.out_width();
    for (int64_t d = 0; d < s.head_dim; ++d) out[d] *= shrink;
  }
  gemm<T>(t.num_queries, s.head_dim, t.num_keys, T{1}, {scores, kKeyTile},
          {heads.v + t.key * s.qkv_width(), s.qkv_width()}, t.key != 0, o + t.query * s.out_width(),
          s.out_width());
}

template <class T>
void forward_block(const T* qkv, T* o, T* lse, const AttentionShape& s, HeadIndex i,
                   int64_t query) {
  const PackedHeads<const T> heads = packed_heads(qkv, s, i);
  T* out = out_head(o, s, i);
  const int64_t num_queries = std::min(kQueryTile, s.length - query);
  T largest[kQueryTile];
  T total[kQueryTile] = {};
  std::fill_n(largest, kQueryTile, -std::numeric_limits<T>::infinity());
  for_each_key_tile(s, query, num_queries,
                    [&](const Tile& t) { add_tile(s, t, i, heads, out, largest, total); });
  for (int64_t r = 0; r < num_queries; ++r) {
    T* row = out + (query + r) * s.out_width();
    const T inverse = T{1} / total[r];
    for (int64_t d = 0; d < s.head_dim; ++d) row[d] *= inverse;
    lse[head_number(s, i) * s.length + query + r] = largest[r] + std::log(total[r]);
  }
}

// Adds one tile's part to the gradients of its queries, keys and values.
template <class T>
void backward_tile(const T* d_out, const T* lse, const T* rowsum, PackedHeads<const T> heads,
                   PackedHeads<T> d_heads, const AttentionShape& s, HeadIndex i, const Tile& t) {
  T probs[kQueryTile * kKeyTile];
  T d_probs[kQueryTile * kKeyTile];
  T kept[kKeyTile];
  const int64_t width = s.qkv_width();
  const MatrixView<const T> d_rows{d_out + t.query * s.out_width(), s.out_width()};
  tile_scores(s, t, heads, probs);
  gemm<T>(t.num_queries, t.num_keys, s.head_dim, T{1}, d_rows,
          {heads.v + t.key * width, width, true}, false, d_probs, kKeyTile);
  const T scale = score_scale<T>(s);
  for (int64_t r = 0; r < t.num_queries; ++r) {
    T* p = probs + r * kKeyTile;
    T* dp = d_probs + r * kKeyTile;
    const int64_t visible = visible_keys(s, t, r);
    const T row_lse = lse[t.query + r];
    const T row_dot = rowsum[t.query + r];
    for (int64_t j = 0; j < visible; ++j) p[j] = exp_value(p[j] - row_lse);
    std::fill(p + visible, p + t.num_keys, T{0});
    std::fill(dp + visible, dp + t.num_keys, T{0});
    if (s.dropout.active()) {
      apply_dropout(dp, dp, s, i, t.query + r, t.key, t.num_keys);
      apply_dropout(p, kept, s, i, t.query + r, t.key, t.num_keys);
    }
    for (int64_t j = 0; j < t.num_keys; ++j) dp[j] = p[j] * (dp[j] - row_dot) * scale;
    if (s.dropout.active()) std::copy_n(kept, t.num_keys, p);
  }
  gemm<T>(t.num_keys, s.head_dim, t.num_queries, T{1}, {probs, kKeyTile, true}, d_rows, true,
          d_heads.v + t.key * width, width);
  gemm<T>(t.num_queries, s.head_dim, t.num_keys, T{1}, {d_probs, kKeyTile},
          {heads.k + t.key * width, width}, true, d_heads.q + t.query * width, width);
  gemm<T>(t.num_keys, s.head_dim, t.num_queries, T{1}, {d_probs, kKeyTile, true},
          {heads.q + t.query * width, width}, true, d_heads.k + t.key * width, width);
}

template <class T>
void zero_rows(T* head, const AttentionShape& s) {
  for (int64_t t = 0; t < s.length; ++t) std::fill_n(head + t * s.qkv_width(), s.head_dim, T{0});
}

}  // namespace

template <class T>
void flash_attention_forward(const T* qkv, T* o, T* lse, const AttentionShape& shape,
                             ThreadPool& pool) {
  const int64_t num_blocks = (shape.length + kQueryTile - 1) / kQueryTile;
  pool.parallel_for(shape.batch * shape.heads * num_blocks, [&](int64_t task) {
    // The blocks with the most keys come first, so that threads finish together.
    const int64_t block = num_blocks - 1 - task / (shape.batch * shape.heads);
    const int64_t head = task % (shape.batch * shape.heads);
    const int64_t h = head % shape.heads;
    forward_block(qkv, o, lse, shape, {head / shape.heads, h, h / shape.group()},
                  block * kQueryTile);
  });
}

template <class T>
void flash_attention_backward(const T* d_o, const T* qkv, const T* o, const T* lse, T* dqkv,
                              T* rowsum, const AttentionShape& shape, ThreadPool& pool) {
  for_each_group(shape, pool, [&](HeadIndex i) {
    const PackedHeads<const T> heads = packed_heads(qkv, shape, i);
    const PackedHeads<T> d_heads = packed_heads(dqkv, shape, i);
    const T* d_out = out_head(d_o, shape, i);
    const T* out = out_head(o, shape, i);
    const T* head_lse = lse + head_number(shape, i) * shape.length;
    T* head_rowsum = rowsum + head_number(shape, i) * shape.length;
    zero_rows(d_heads.q, shape);
    if (i.h == i.kv * shape.group()) {
      zero_rows(d_heads.k, shape);
      zero_rows(d_heads.v, shape);
    }
    for (int64_t t = 0; t < shape.length; ++t) {
      const int64_t row = t * shape.out_width();
      head_rowsum[t] = dot(d_out + row, out + row, shape.head_dim);
    }
    for (int64_t query = 0; query < shape.length; query += kQueryTile) {
      const int64_t num_queries = std::min(kQueryTile, shape.length - query);
      for_each_key_tile(shape, query, num_queries, [&](const Tile& t) {
        backward_tile(d_out, head_lse, head_rowsum, heads, d_heads, shape, i, t);
      });
    }
  });
}

#define PLIMSOLL_INSTANTIATE(T)                                                                   \
  template void flash_attention_forward<T>(const T*, T*, T*, const AttentionShape&, ThreadPool&); \
  template void flash_attention_backward<T>(const T*, const T*, const T*, const T*, T*, T*,       \
                                            const AttentionShape&, ThreadPool&);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
