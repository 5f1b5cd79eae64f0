#include "kernels/cuda/elements.h"
#include "kernels/cuda/prepend_token.h"

namespace plimsoll::cuda {

namespace {

struct Forward {
  const float* x;
  const float* token;
  float* y;
  int64_t channels, out_size;  // elements of a token, of a sample of y
  __device__ void operator()(int64_t i) const {
    const int64_t b = i / out_size;
    const int64_t at = i % out_size;
    y[i] = at < channels ? token[at] : x[b * (out_size - channels) + at - channels];
  }
};

struct Backward {
  const float* dy;
  float* dx;
  int64_t channels, in_size;
  __device__ void operator()(int64_t i) const {
    dx[i] = dy[i / in_size * (in_size + channels) + channels + i % in_size];
  }
};

}  // namespace

void prepend_token_forward(const float* x, const float* token, float* y, int64_t batch,
                           int64_t length, int64_t channels, const Queue& queue) {
  const int64_t out_size = (length + 1) * channels;
  for_each_element(queue, "prepend_token", batch * out_size,
                   Forward{x, token, y, channels, out_size});
}

void prepend_token_backward(const float* dy, float* dx, float* dtoken, bool accumulate_dtoken,
                            int64_t batch, int64_t length, int64_t channels, const Queue& queue) {
  const int64_t in_size = length * channels;
  for_each_element(queue, "prepend_token.backward", batch * in_size,
                   Backward{dy, dx, channels, in_size});
  sum_columns(queue, "prepend_token.backward", batch, channels, dtoken, accumulate_dtoken,
              MatrixValue{dy, in_size + channels});
}

}  // namespace plimsoll::cuda
