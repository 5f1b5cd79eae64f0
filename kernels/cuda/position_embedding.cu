#include "kernels/cuda/elements.h"
#include "kernels/cuda/position_embedding.h"

namespace plimsoll::cuda {

namespace {

struct Forward {
  const float* x;
  const float* table;
  float* y;
  int64_t used;  // elements of a sample
  __device__ void operator()(int64_t i) const { y[i] = x[i] + table[i % used]; }
};

struct Backward {
  const float* dy;
  float* dtable;
  bool accumulate;
  int64_t batch, used;
  __device__ void operator()(int64_t i) const {
    if (i >= used) {
      if (!accumulate) dtable[i] = 0;
      return;
    }
    float sum = 0;
    for (int64_t b = 0; b < batch; ++b) sum += dy[b * used + i];
    store(dtable + i, sum, accumulate);
  }
};

}  // namespace

void position_embedding_forward(const float* x, const float* table, float* y, int64_t batch,
                                int64_t length, int64_t channels, const Queue& queue) {
  for_each_element(queue, "position_embedding", batch * length * channels,
                   Forward{x, table, y, length * channels});
}

void position_embedding_backward(const float* dy, float* dtable, bool accumulate, int64_t batch,
                                 int64_t length, int64_t max_length, int64_t channels,
                                 const Queue& queue) {
  for_each_element(queue, "position_embedding.backward", max_length * channels,
                   Backward{dy, dtable, accumulate, batch, length * channels});
}

}  // namespace plimsoll::cuda
