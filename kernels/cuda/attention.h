// Causal or full attention over packed heads, with grouped queries and dropout, in the two forms of
// kernels/cpu/attention.h, which says what each saves and how dropout is drawn.
#pragma once

#include "kernels/cuda/dropout.h"
#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::cuda {

struct AttentionShape {
  int64_t batch = 1, length = 1;
  int64_t heads = 1, kv_heads = 1, head_dim = 1;
  bool causal = true;
  int64_t first_sample = 0;
  DropoutDraw dropout;
};

inline constexpr int64_t kMaxFlashHeadDim = 256;

// qkv [B,T,(H+2G)*D], o [B,T,H*D], lse [B,H,T]. Throws Error (exit 2) when D > 256.
void flash_attention_forward(const float* qkv, float* o, float* lse, const AttentionShape& shape,
                             const Queue& queue);
// rowsum [B,H,T] is workspace. No atomics: queries' gradients and keys' are kernels of their own,
// so that both are summed in a fixed order.
void flash_attention_backward(const float* d_o, const float* qkv, const float* o, const float* lse,
                              float* dqkv, float* rowsum, const AttentionShape& shape,
                              const Queue& queue);

// probs [B,H,T,T].
void naive_attention_forward(const float* qkv, float* o, float* probs, const AttentionShape& shape,
                             const Queue& queue);
// workspace [B,H,T,T]: the scores' gradients.
void naive_attention_backward(const float* d_o, const float* qkv, const float* probs, float* dqkv,
                              float* workspace, const AttentionShape& shape, const Queue& queue);

}  // namespace plimsoll::cuda
