#include "kernels/cuda/elements.h"
#include "kernels/cuda/embedding.h"

namespace plimsoll::cuda {

namespace {

struct Forward {
  const int32_t* tokens;
  const float* table;
  float* y;
  int64_t channels;
  __device__ void operator()(int64_t i) const {
    y[i] = table[tokens[i / channels] * channels + i % channels];
  }
};

struct NoRows {
  int32_t* head;
  __device__ void operator()(int64_t i) const { head[i] = -1; }
};

// A list of rows for each token, in order, without atomics: the first row of a token is its head,
// and each row finds the next one of its token.
struct Link {
  const int32_t* tokens;
  int32_t* head;
  int32_t* next;
  int64_t rows;
  __device__ void operator()(int64_t r) const {
    const int32_t token = tokens[r];
    int64_t after = r + 1;
    while (after < rows && tokens[after] != token) ++after;
    next[r] = after < rows ? static_cast<int32_t>(after) : -1;
    int64_t before = r - 1;
    while (before >= 0 && tokens[before] != token) --before;
    if (before < 0) head[token] = static_cast<int32_t>(r);
  }
};

struct Sum {
  const float* dy;
  const int32_t* head;
  const int32_t* next;
  float* dtable;
  bool accumulate;
  int64_t channels;
  __device__ void operator()(int64_t token, int lane) const {
    const int32_t first = head[token];
    if (first < 0 && accumulate) return;
    for (int64_t c = lane; c < channels; c += 32) {
      float sum = 0;
      for (int32_t r = first; r >= 0; r = next[r]) sum += dy[r * channels + c];
      store(dtable + token * channels + c, sum, accumulate);
    }
  }
};

}  // namespace

void embedding_forward(const int32_t* tokens, const float* table, float* y, int64_t rows,
                       int64_t channels, const Queue& queue) {
  for_each_element(queue, "embedding", rows * channels, Forward{tokens, table, y, channels});
}

void embedding_backward(const int32_t* tokens, const float* dy, float* dtable, bool accumulate,
                        int32_t* workspace, int64_t rows, int64_t vocabulary, int64_t channels,
                        const Queue& queue) {
  int32_t* head = workspace;
  int32_t* next = workspace + vocabulary;
  for_each_element(queue, "embedding.backward", vocabulary, NoRows{head});
  for_each_element(queue, "embedding.backward", rows, Link{tokens, head, next, rows});
  for_each_row(queue, "embedding.backward", vocabulary,
               Sum{dy, head, next, dtable, accumulate, channels});
}

}  // namespace plimsoll::cuda
