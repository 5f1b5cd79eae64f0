// Cross-entropy of logits whose columns are shared out over ranks: what a rank does with its share
// before and behind the reductions over the ranks.
#pragma once

#include "kernels/cpu/thread_pool.h"

#include <algorithm>
#include <cstdint>

namespace plimsoll {

// Columns [first, first + columns) of a vocabulary; those past its end are padding.
struct VocabShare {
  int64_t columns = 1, first = 0, vocabulary = 1;
  [[nodiscard]] int64_t valid() const {
    return std::clamp<int64_t>(vocabulary - first, 0, columns);
  }
};

// logits [R,columns]; local_max [R], minus infinity for a share of padding alone.
template <class T>
void vocab_max(const T* logits, T* local_max, int64_t rows, const VocabShare& share,
               ThreadPool& pool);

// sums [2,R]: of exp(logit - row_max), and the target's logit - row_max, `absent` where another
// rank has it or the target is ignored.
template <class T>
void vocab_sums(const T* logits, const int32_t* targets, const T* row_max, T* sums,
                int64_t sums_stride, T absent, int64_t rows, const VocabShare& share,
                ThreadPool& pool);

// From sums [2,R] with a rank's own largest logits and kAbsentTarget to sums with those of all
// ranks and 0; `to` may be `from`.
template <class T>
void vocab_rescale(const T* from, const T* local_max, const T* row_max, T* to, int64_t rows,
                   ThreadPool& pool);
inline constexpr int kAbsentTarget = 1;  // no logit is larger than the largest

// row_loss [R] and lse [R] from the reduced row_max [R] and sums [2,R].
template <class T>
void vocab_loss(const int32_t* targets, const T* row_max, const T* sums, T* row_loss, T* lse,
                int64_t rows);

// dlogits [R,columns] (may be logits) = (softmax - one_hot(target)) * scale; 0 in padding and in
// ignored rows.
template <class T>
void vocab_backward(const T* logits, const int32_t* targets, const T* lse, T* dlogits, double scale,
                    int64_t rows, const VocabShare& share, ThreadPool& pool);

}  // namespace plimsoll
