#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_heads.h"
#include "kernels/cuda/keep_mask.h"

#include <cmath>

namespace plimsoll::cuda {
namespace {

// Rows of [B,H,T,…] tensors: sample, head and query of a row.
struct Row {
  int64_t b, h, i;
  __device__ Row(const Heads& heads, int64_t r)
      : b(r / heads.s.length / heads.s.heads),
        h(r / heads.s.length % heads.s.heads),
        i(r % heads.s.length) {}
};

// A warp has a query: its scores, then their softmax in place.
struct Probabilities {
  const float* qkv;
  float* probs;
  Heads heads;
  float scale;
  __device__ void operator()(int64_t r, int lane) const {
    const Row at(heads, r);
    const float* q = qkv + heads.q(at.b, at.h, at.i);
    float* row = probs + r * heads.s.length;
    float largest = -INFINITY;
    for (int64_t j = lane; j < heads.s.length; j += 32) {
      const float* k = qkv + heads.k(at.b, at.h / heads.group(), j);
      float sum = 0;
      for (int64_t d = 0; d < heads.s.head_dim; ++d) sum += q[d] * k[d];
      const float score = heads.sees(at.i, j) ? sum * scale : -INFINITY;
      row[j] = score;
      largest = score > largest ? score : largest;
    }
    largest = warp_max(largest);
    float total = 0;
    for (int64_t j = lane; j < heads.s.length; j += 32) {
      row[j] = expf(row[j] - largest);
      total += row[j];
    }
    const float inverse = 1.0F / warp_sum(total);
    for (int64_t j = lane; j < heads.s.length; j += 32) row[j] *= inverse;
  }
};

// An element of o: the sum over keys of the kept probabilities times the values.
struct Output {
  const float* qkv;
  const float* probs;
  float* o;
  Heads heads;
  __device__ void operator()(int64_t n) const {
    const int64_t d = n % heads.s.head_dim;
    const Row at(heads, n / heads.s.head_dim);
    const KeepMask mask(heads.s.dropout);
    const float* row = probs + heads.row(at.b, at.h, at.i) * heads.s.length;
    float sum = 0;
    for (int64_t j = 0; j < heads.s.length; ++j) {
      const float p = mask.active() ? mask.apply(row[j], heads.draw(at.b, at.h, at.i, j)) : row[j];
      sum += p * qkv[heads.v(at.b, at.h / heads.group(), j) + d];
    }
    o[heads.out(at.b, at.h, at.i) + d] = sum;
  }
};

// A warp has a query: the gradients of its scores.
struct ScoreGradients {
  const float* d_o;
  const float* qkv;
  const float* probs;
  float* ds;
  Heads heads;
  float scale;
  __device__ void operator()(int64_t r, int lane) const {
    const Row at(heads, r);
    const KeepMask mask(heads.s.dropout);
    const float* g = d_o + heads.out(at.b, at.h, at.i);
    const float* p = probs + r * heads.s.length;
    float* row = ds + r * heads.s.length;
    float dot = 0;
    for (int64_t j = lane; j < heads.s.length; j += 32) {
      const float* v = qkv + heads.v(at.b, at.h / heads.group(), j);
      float sum = 0;
      for (int64_t d = 0; d < heads.s.head_dim; ++d) sum += g[d] * v[d];
      row[j] = mask.active() ? mask.apply(sum, heads.draw(at.b, at.h, at.i, j)) : sum;
      dot += p[j] * row[j];
    }
    dot = warp_sum(dot);
    for (int64_t j = lane; j < heads.s.length; j += 32) row[j] = p[j] * (row[j] - dot) * scale;
  }
};

struct QueryGradient {
  const float* qkv;
  const float* ds;
  float* dqkv;
  Heads heads;
  __device__ void operator()(int64_t n) const {
    const int64_t d = n % heads.s.head_dim;
    const Row at(heads, n / heads.s.head_dim);
    const float* row = ds + heads.row(at.b, at.h, at.i) * heads.s.length;
    float sum = 0;
    for (int64_t j = 0; j < heads.s.length; ++j) {
      sum += row[j] * qkv[heads.k(at.b, at.h / heads.group(), j) + d];
    }
    dqkv[heads.q(at.b, at.h, at.i) + d] = sum;
  }
};

// An element of a key's and of a value's gradient, over the group's heads and all queries in order.
struct KeyGradient {
  const float *d_o, *qkv, *probs, *ds;
  float* dqkv;
  Heads heads;
  __device__ void operator()(int64_t n) const {
    const AttentionShape& s = heads.s;
    const int64_t d = n % s.head_dim;
    const int64_t j = n / s.head_dim % s.length;
    const int64_t kv = n / s.head_dim / s.length % s.kv_heads;
    const int64_t b = n / s.head_dim / s.length / s.kv_heads;
    const KeepMask mask(s.dropout);
    float dk = 0;
    float dv = 0;
    for (int64_t h = kv * heads.group(); h < (kv + 1) * heads.group(); ++h) {
      for (int64_t i = 0; i < s.length; ++i) {
        const int64_t at = heads.row(b, h, i) * s.length + j;
        const float p = mask.active() ? mask.apply(probs[at], heads.draw(b, h, i, j)) : probs[at];
        dv += p * d_o[heads.out(b, h, i) + d];
        dk += ds[at] * qkv[heads.q(b, h, i) + d];
      }
    }
    dqkv[heads.k(b, kv, j) + d] = dk;
    dqkv[heads.v(b, kv, j) + d] = dv;
  }
};

float score_scale(const AttentionShape& s) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_dim)));
}

}  // namespace

void naive_attention_forward(const float* qkv, float* o, float* probs, const AttentionShape& shape,
                             const Queue& queue) {
  const int64_t rows = shape.batch * shape.heads * shape.length;
  for_each_row(queue, "attention.probabilities", rows,
               Probabilities{qkv, probs, Heads{shape}, score_scale(shape)});
  for_each_element(queue, "attention.output", rows * shape.head_dim,
                   Output{qkv, probs, o, Heads{shape}});
}

void naive_attention_backward(const float* d_o, const float* qkv, const float* probs, float* dqkv,
                              float* workspace, const AttentionShape& shape, const Queue& queue) {
  const int64_t rows = shape.batch * shape.heads * shape.length;
  for_each_row(queue, "attention.backward_scores", rows,
               ScoreGradients{d_o, qkv, probs, workspace, Heads{shape}, score_scale(shape)});
  for_each_element(queue, "attention.backward_query", rows * shape.head_dim,
                   QueryGradient{qkv, workspace, dqkv, Heads{shape}});
  for_each_element(queue, "attention.backward_key",
                   shape.batch * shape.kv_heads * shape.length * shape.head_dim,
                   KeyGradient{d_o, qkv, probs, workspace, dqkv, Heads{shape}});
}

}  // namespace plimsoll::cuda
