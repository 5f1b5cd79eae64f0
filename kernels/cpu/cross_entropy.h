// Softmax cross-entropy, summed over rows; a target of -100 takes no part.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <cstdint>

namespace plimsoll {

inline constexpr int32_t kIgnoredTarget = -100;

// logits [R,V], targets [R] in [0, V) or -100; row_loss [R] = lse - logit of the target (0 when
// ignored), lse [R] = log of the sum of exp(logit).
template <class T>
void cross_entropy_rows(const T* logits, const int32_t* targets, T* row_loss, T* lse, int64_t rows,
                        int64_t vocabulary, ThreadPool& pool);

// dlogits [R,V] (may be logits) = (softmax - one_hot(target)) * scale, 0 in ignored rows.
template <class T>
void cross_entropy_backward(const T* logits, const int32_t* targets, const T* lse, T* dlogits,
                            double scale, int64_t rows, int64_t vocabulary, ThreadPool& pool);

// loss [1] (+)= sum of row_loss [R], one row after the other in double precision.
template <class T>
void sum_row_loss(const T* row_loss, double* loss, bool accumulate, int64_t rows);

// correct [1] (+)= number of rows whose largest logit (the first of equals) is the target's.
template <class T>
void count_correct(const T* logits, const int32_t* targets, double* correct, bool accumulate,
                   int64_t rows, int64_t vocabulary);

}  // namespace plimsoll
