// Batch normalisation of images: y = (x - mean) * rstd * w + b with one mean and variance a
// channel, summed in double precision over images and pixels.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

struct BatchNormShape {
  int64_t batch = 1, channels = 1, pixels = 1;  // N, C, H*W
  [[nodiscard]] int64_t count() const { return batch * pixels; }
};

// x, y [N,C,H,W], w, b, mean, rstd [C]; rstd = 1 / sqrt(biased variance + epsilon).
template <class T>
void batch_norm_forward(const T* x, const T* w, const T* b, T* y, T* mean, T* rstd, double epsilon,
                        const BatchNormShape& shape, ThreadPool& pool);

// dy, x [N,C,H,W], w, mean, rstd [C]; dx [N,C,H,W] (+)=, dw [C] (+)=, db [C] (+)=.
template <class T>
void batch_norm_backward(const T* dy, const T* x, const T* w, const T* mean, const T* rstd, T* dx,
                         bool accumulate_dx, T* dw, bool accumulate_dw, T* db, bool accumulate_db,
                         const BatchNormShape& shape, ThreadPool& pool);

// running [2,C] = [mean; variance].
template <class T>
void batch_norm_inference(const T* x, const T* w, const T* b, const T* running, T* y,
                          double epsilon, const BatchNormShape& shape, ThreadPool& pool);

// statistics [2,C] (+)= [mean; unbiased variance of `count` values] (biased when count is 1).
template <class T>
void batch_norm_statistics(const T* mean, const T* rstd, T* statistics, bool accumulate,
                           double epsilon, int64_t count, int64_t channels);

// state [n] = (1 - momentum) * state + momentum * statistics [n] / count.
template <class T>
void batch_norm_running(const T* statistics, T* state, double momentum, double count, int64_t n,
                        ThreadPool& pool);

}  // namespace plimsoll
