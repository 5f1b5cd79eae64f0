#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_heads.h"
#include "kernels/cuda/keep_mask.h"

#include <cmath>

namespace plimsoll::cuda {
namespace {

// A block has tiles of 32 queries by 32 keys. Four neighbouring lanes own a row (a query, or a key
// when keys' gradients are summed): each has every fourth of the row's 32 scores, and every fourth
// of its D sums, kept in registers.
constexpr int kTile = 32;
constexpr int kLanesOfRow = 4;
constexpr int kBlockThreads = kTile * kLanesOfRow;
constexpr int kScores = kTile / kLanesOfRow;
constexpr float kMinusInfinity = -INFINITY;

struct Lane {
  int row, part;
  __device__ Lane()
      : row(static_cast<int>(threadIdx.x) / kLanesOfRow),
        part(static_cast<int>(threadIdx.x) % kLanesOfRow) {}
};

// Tiles [kTile, D + 1] of shared memory: the odd stride keeps rows in different banks.
struct Tiles {
  float* memory;
  int64_t stride;
  __device__ float* tile(int i) const { return memory + i * kTile * stride; }
  // Matrices [kTile, kTile + 1] behind the first `tiles` tiles.
  __device__ float* matrix(int tiles, int i) const { return tile(tiles) + i * kTile * (kTile + 1); }
};

int64_t shared_bytes(int tiles, int matrices, int64_t head_dim) {
  return (tiles * kTile * (head_dim + 1) + matrices * kTile * (kTile + 1)) *
         static_cast<int64_t>(sizeof(float));
}

// Loads rows first … first + 32 of a head; `row_at(t)` is the place of a row. Rows behind the last
// are zeros.
template <class RowAt>
__device__ void load_tile(float* tile, int64_t stride, const float* from, int64_t first,
                          int64_t length, int64_t head_dim, const RowAt& row_at) {
  for (int64_t i = threadIdx.x; i < kTile * head_dim; i += kBlockThreads) {
    const int64_t r = i / head_dim;
    const int64_t d = i % head_dim;
    tile[r * stride + d] = first + r < length ? from[row_at(first + r) + d] : 0.0F;
  }
}

struct RowOfQ {
  Heads heads;
  int64_t b, h;
  __device__ int64_t operator()(int64_t t) const { return heads.q(b, h, t); }
};
struct RowOfOut {
  Heads heads;
  int64_t b, h;
  __device__ int64_t operator()(int64_t t) const { return heads.out(b, h, t); }
};

__device__ float row_dot(const float* a, const float* b, int64_t n) {
  float sum = 0;
  for (int64_t d = 0; d < n; ++d) sum += a[d] * b[d];
  return sum;
}

__device__ float sum_of_row(float value) {
  value += __shfl_xor_sync(kAllLanes, value, 1);
  return value + __shfl_xor_sync(kAllLanes, value, 2);
}

__device__ float max_of_row(float value) {
  float other = __shfl_xor_sync(kAllLanes, value, 1);
  value = other > value ? other : value;
  other = __shfl_xor_sync(kAllLanes, value, 2);
  return other > value ? other : value;
}

// sums[c] += sum over j of weights[j] * tile[j][4 c + part].
template <int kColumns>
__device__ void add_rows(float (&sums)[kColumns], const float* weights, const float* tile,
                         int64_t stride, int64_t head_dim, int part) {
  for (int j = 0; j < kTile; ++j) {
    const float weight = weights[j];
    PLIMSOLL_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      const int d = c * kLanesOfRow + part;
      if (d < head_dim) sums[c] += weight * tile[j * stride + d];
    }
  }
}

template <int kColumns>
__device__ void store_row(float* out, const float (&sums)[kColumns], float scale, int64_t head_dim,
                          int part) {
  PLIMSOLL_UNROLL
  for (int c = 0; c < kColumns; ++c) {
    const int d = c * kLanesOfRow + part;
    if (d < head_dim) out[d] = sums[c] * scale;
  }
}

// grid (tiles of queries, heads, batch)
template <int kColumns>
__global__ void __launch_bounds__(kBlockThreads, 2)
    forward_kernel(const float* qkv, float* o, float* lse, Heads heads, float scale) {
  const AttentionShape& s = heads.s;
  const Tiles tiles{dynamic_shared<float>(), s.head_dim + 1};
  float* q = tiles.tile(0);
  float* k = tiles.tile(1);
  float* v = tiles.tile(2);
  const Lane lane;
  const int64_t h = blockIdx.y;
  const int64_t b = blockIdx.z;
  const int64_t kv = h / heads.group();
  // The tiles with the most keys come first, so that blocks end together.
  const int64_t first = (static_cast<int64_t>(gridDim.x) - 1 - blockIdx.x) * kTile;
  const int64_t i = first + lane.row;
  const KeepMask mask(s.dropout);
  float* p = tiles.matrix(3, 0) + lane.row * (kTile + 1);
  load_tile(q, tiles.stride, qkv, first, s.length, s.head_dim, RowOfQ{heads, b, h});

  float sums[kColumns] = {};
  float largest = kMinusInfinity;
  float total = 0;
  const int64_t end = s.causal && first + kTile < s.length ? first + kTile : s.length;
  for (int64_t key = 0; key < end; key += kTile) {
    __syncthreads();  // the tiles before are used up
    load_tile(k, tiles.stride, qkv, key, s.length, s.head_dim, RowOfQ{heads, b, s.heads + kv});
    load_tile(v, tiles.stride, qkv, key, s.length, s.head_dim,
              RowOfQ{heads, b, s.heads + s.kv_heads + kv});
    __syncthreads();
    float scores[kScores];
    float tile_largest = kMinusInfinity;
    PLIMSOLL_UNROLL
    for (int n = 0; n < kScores; ++n) {
      const int j = n * kLanesOfRow + lane.part;
      const float score =
          row_dot(q + lane.row * tiles.stride, k + j * tiles.stride, s.head_dim) * scale;
      scores[n] = heads.sees(i, key + j) ? score : kMinusInfinity;
      tile_largest = scores[n] > tile_largest ? scores[n] : tile_largest;
    }
    tile_largest = max_of_row(tile_largest);
    const float now = tile_largest > largest ? tile_largest : largest;
    const bool empty = now == kMinusInfinity;  // a row behind the last query
    const float shrink = empty ? 1.0F : expf(largest - now);
    float tile_total = 0;
    PLIMSOLL_UNROLL
    for (int n = 0; n < kScores; ++n) {
      const int j = n * kLanesOfRow + lane.part;
      const float value = empty ? 0.0F : expf(scores[n] - now);
      tile_total += value;
      p[j] = mask.active() ? mask.apply(value, heads.draw(b, h, i, key + j)) : value;
    }
    total = total * shrink + sum_of_row(tile_total);
    largest = now;
    __syncwarp();
    PLIMSOLL_UNROLL
    for (int c = 0; c < kColumns; ++c) sums[c] *= shrink;
    add_rows(sums, p, v, tiles.stride, s.head_dim, lane.part);
    __syncwarp();
  }
  if (i >= s.length) return;
  store_row(o + heads.out(b, h, i), sums, 1.0F / total, s.head_dim, lane.part);
  if (lane.part == 0) lse[heads.row(b, h, i)] = largest + logf(total);
}

// rowsum = do . o of each query: a warp a row of [B,H,T].
struct RowSum {
  const float *d_o, *o;
  float* rowsum;
  Heads heads;
  __device__ void operator()(int64_t r, int lane) const {
    const int64_t t = r % heads.s.length;
    const int64_t head = r / heads.s.length;
    const int64_t at = heads.out(head / heads.s.heads, head % heads.s.heads, t);
    float sum = 0;
    for (int64_t d = lane; d < heads.s.head_dim; d += 32) sum += d_o[at + d] * o[at + d];
    sum = warp_sum(sum);
    if (lane == 0) rowsum[r] = sum;
  }
};

// The probability of a pair after dropout, and the gradient of its score.
struct Pair {
  float kept, d_score;
};

__device__ Pair pair_of(const Heads& heads, const KeepMask& mask, int64_t b, int64_t h, int64_t i,
                        int64_t j, float product, float d_prob, float row_lse, float row_sum,
                        float scale) {
  if (i >= heads.s.length || !heads.sees(i, j)) return {0, 0};
  const float p = expf(product * scale - row_lse);
  if (!mask.active()) return {p, p * (d_prob - row_sum) * scale};
  const uint64_t at = heads.draw(b, h, i, j);
  return {mask.apply(p, at), p * (mask.apply(d_prob, at) - row_sum) * scale};
}

template <int kColumns>
__global__ void __launch_bounds__(kBlockThreads, 2)
    query_gradient_kernel(const float* d_o, const float* qkv, const float* lse, const float* rowsum,
                          float* dqkv, Heads heads, float scale) {
  const AttentionShape& s = heads.s;
  const Tiles tiles{dynamic_shared<float>(), s.head_dim + 1};
  float* q = tiles.tile(0);
  float* d_out = tiles.tile(1);
  float* k = tiles.tile(2);
  float* v = tiles.tile(3);
  const Lane lane;
  const int64_t h = blockIdx.y;
  const int64_t b = blockIdx.z;
  const int64_t kv = h / heads.group();
  const int64_t first = (static_cast<int64_t>(gridDim.x) - 1 - blockIdx.x) * kTile;
  const int64_t i = first + lane.row;
  const KeepMask mask(s.dropout);
  float* ds = tiles.matrix(4, 0) + lane.row * (kTile + 1);
  load_tile(q, tiles.stride, qkv, first, s.length, s.head_dim, RowOfQ{heads, b, h});
  load_tile(d_out, tiles.stride, d_o, first, s.length, s.head_dim, RowOfOut{heads, b, h});
  const float row_lse = i < s.length ? lse[heads.row(b, h, i)] : 0.0F;
  const float row_sum = i < s.length ? rowsum[heads.row(b, h, i)] : 0.0F;

  float sums[kColumns] = {};
  const int64_t end = s.causal && first + kTile < s.length ? first + kTile : s.length;
  for (int64_t key = 0; key < end; key += kTile) {
    __syncthreads();
    load_tile(k, tiles.stride, qkv, key, s.length, s.head_dim, RowOfQ{heads, b, s.heads + kv});
    load_tile(v, tiles.stride, qkv, key, s.length, s.head_dim,
              RowOfQ{heads, b, s.heads + s.kv_heads + kv});
    __syncthreads();
    for (int n = 0; n < kScores; ++n) {
      const int j = n * kLanesOfRow + lane.part;
      const float product = row_dot(q + lane.row * tiles.stride, k + j * tiles.stride, s.head_dim);
      const float d_prob =
          row_dot(d_out + lane.row * tiles.stride, v + j * tiles.stride, s.head_dim);
      ds[j] =
          pair_of(heads, mask, b, h, i, key + j, product, d_prob, row_lse, row_sum, scale).d_score;
    }
    __syncwarp();
    add_rows(sums, ds, k, tiles.stride, s.head_dim, lane.part);
    __syncwarp();
  }
  if (i < s.length) store_row(dqkv + heads.q(b, h, i), sums, 1.0F, s.head_dim, lane.part);
}

// grid (tiles of keys, key and value heads, batch): the queries' heads of a group are summed in
// order by one block.
template <int kColumns>
__global__ void __launch_bounds__(kBlockThreads, 2)
    key_gradient_kernel(const float* d_o, const float* qkv, const float* lse, const float* rowsum,
                        float* dqkv, Heads heads, float scale) {
  const AttentionShape& s = heads.s;
  const Tiles tiles{dynamic_shared<float>(), s.head_dim + 1};
  float* q = tiles.tile(0);
  float* d_out = tiles.tile(1);
  float* k = tiles.tile(2);
  float* v = tiles.tile(3);
  const Lane lane;
  const int64_t kv = blockIdx.y;
  const int64_t b = blockIdx.z;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t j = first + lane.row;
  const KeepMask mask(s.dropout);
  float* p = tiles.matrix(4, 0) + lane.row * (kTile + 1);
  float* ds = tiles.matrix(4, 1) + lane.row * (kTile + 1);
  load_tile(k, tiles.stride, qkv, first, s.length, s.head_dim, RowOfQ{heads, b, s.heads + kv});
  load_tile(v, tiles.stride, qkv, first, s.length, s.head_dim,
            RowOfQ{heads, b, s.heads + s.kv_heads + kv});

  float dk[kColumns] = {};
  float dv[kColumns] = {};
  for (int64_t h = kv * heads.group(); h < (kv + 1) * heads.group(); ++h) {
    for (int64_t query = s.causal ? first : 0; query < s.length; query += kTile) {
      __syncthreads();
      load_tile(q, tiles.stride, qkv, query, s.length, s.head_dim, RowOfQ{heads, b, h});
      load_tile(d_out, tiles.stride, d_o, query, s.length, s.head_dim, RowOfOut{heads, b, h});
      __syncthreads();
      for (int n = 0; n < kScores; ++n) {
        const int r = n * kLanesOfRow + lane.part;
        const int64_t i = query + r;
        const bool there = i < s.length;
        const float product =
            row_dot(q + r * tiles.stride, k + lane.row * tiles.stride, s.head_dim);
        const float d_prob =
            row_dot(d_out + r * tiles.stride, v + lane.row * tiles.stride, s.head_dim);
        const Pair pair = pair_of(heads, mask, b, h, i, j, product, d_prob,
                                  there ? lse[heads.row(b, h, i)] : 0.0F,
                                  there ? rowsum[heads.row(b, h, i)] : 0.0F, scale);
        p[r] = pair.kept;
        ds[r] = pair.d_score;
      }
      __syncwarp();
      add_rows(dv, p, d_out, tiles.stride, s.head_dim, lane.part);
      add_rows(dk, ds, q, tiles.stride, s.head_dim, lane.part);
      __syncwarp();
    }
  }
  if (j >= s.length) return;
  store_row(dqkv + heads.k(b, kv, j), dk, 1.0F, s.head_dim, lane.part);
  store_row(dqkv + heads.v(b, kv, j), dv, 1.0F, s.head_dim, lane.part);
}

dim3 grid_of(const AttentionShape& s, int64_t heads) {
  return {blocks_of(s.length, kTile), static_cast<unsigned>(heads), static_cast<unsigned>(s.batch)};
}

float score_scale(const AttentionShape& s) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_dim)));
}

template <int kColumns>
void forward(const float* qkv, float* o, float* lse, const AttentionShape& s, const Queue& queue) {
  launch(queue, "flash_attention", forward_kernel<kColumns>, grid_of(s, s.heads), kBlockThreads,
         shared_bytes(3, 1, s.head_dim), qkv, o, lse, Heads{s}, score_scale(s));
}

template <int kColumns>
void backward(const float* d_o, const float* qkv, const float* lse, const float* rowsum,
              float* dqkv, const AttentionShape& s, const Queue& queue) {
  launch(queue, "flash_attention.backward_query", query_gradient_kernel<kColumns>,
         grid_of(s, s.heads), kBlockThreads, shared_bytes(4, 1, s.head_dim), d_o, qkv, lse, rowsum,
         dqkv, Heads{s}, score_scale(s));
  launch(queue, "flash_attention.backward_key", key_gradient_kernel<kColumns>,
         grid_of(s, s.kv_heads), kBlockThreads, shared_bytes(4, 2, s.head_dim), d_o, qkv, lse,
         rowsum, dqkv, Heads{s}, score_scale(s));
}

}  // namespace

void flash_attention_forward(const float* qkv, float* o, float* lse, const AttentionShape& shape,
                             const Queue& queue) {
  if (shape.head_dim > kMaxFlashHeadDim) launch_failed("flash_attention", "heads of more than 256");
  if (shape.head_dim <= 64) return forward<16>(qkv, o, lse, shape, queue);
  if (shape.head_dim <= 128) return forward<32>(qkv, o, lse, shape, queue);
  forward<64>(qkv, o, lse, shape, queue);
}

void flash_attention_backward(const float* d_o, const float* qkv, const float* o, const float* lse,
                              float* dqkv, float* rowsum, const AttentionShape& shape,
                              const Queue& queue) {
  if (shape.head_dim > kMaxFlashHeadDim) launch_failed("flash_attention", "heads of more than 256");
  for_each_row(queue, "flash_attention.rowsum", shape.batch * shape.heads * shape.length,
               RowSum{d_o, o, rowsum, Heads{shape}});
  if (shape.head_dim <= 64) return backward<16>(d_o, qkv, lse, rowsum, dqkv, shape, queue);
  if (shape.head_dim <= 128) return backward<32>(d_o, qkv, lse, rowsum, dqkv, shape, queue);
  backward<64>(d_o, qkv, lse, rowsum, dqkv, shape, queue);
}

}  // namespace plimsoll::cuda
