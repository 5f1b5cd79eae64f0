// Causal or full attention over packed heads, with grouped queries and dropout.
//
// Two forms that differ in what they save. "flash" walks over tiles of queries by keys with an
// online softmax, never holds [T,T], and saves the log-sum-exp of each query's scores; "naive"
// stores the probabilities after softmax and before dropout. Dropout's mask for head h of sample b,
// query i and key j is drawn at ((first_sample + b) * H + h) * T * T + i * T + j in both.
#pragma once

#include "kernels/cpu/dropout.h"
#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

struct AttentionShape {
  int64_t batch = 1, length = 1;  // B, T
  int64_t heads = 1;              // H, of queries
  int64_t kv_heads = 1;           // G, divides H; query head h reads key and value head h / (H/G)
  int64_t head_dim = 1;           // D
  bool causal = true;
  int64_t first_sample = 0;
  // Of a layer whose heads are shared out: this share's first, and all of them (0: H), by which
  // dropout counts.
  int64_t first_head = 0, all_heads = 0;
  DropoutMask dropout;

  [[nodiscard]] int64_t group() const { return heads / kv_heads; }
  [[nodiscard]] int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_dim; }
  [[nodiscard]] int64_t out_width() const { return heads * head_dim; }
};

// qkv [B,T,(H+2G)*D], o [B,T,H*D], lse [B,H,T] of the scaled scores.
template <class T>
void flash_attention_forward(const T* qkv, T* o, T* lse, const AttentionShape& shape,
                             ThreadPool& pool);

// d_o, o [B,T,H*D], qkv, lse as above; dqkv [B,T,(H+2G)*D], rowsum [B,H,T] (workspace: sum of do *
// o).
template <class T>
void flash_attention_backward(const T* d_o, const T* qkv, const T* o, const T* lse, T* dqkv,
                              T* rowsum, const AttentionShape& shape, ThreadPool& pool);

// probs [B,H,T,T].
template <class T>
void naive_attention_forward(const T* qkv, T* o, T* probs, const AttentionShape& shape,
                             ThreadPool& pool);

// workspace [B,H,T,T]: the scores' gradients.
template <class T>
void naive_attention_backward(const T* d_o, const T* qkv, const T* probs, T* dqkv, T* workspace,
                              const AttentionShape& shape, ThreadPool& pool);

}  // namespace plimsoll
