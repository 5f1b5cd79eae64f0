#include "kernels/cpu/vocab_cross_entropy.h"

#include "kernels/cpu/cross_entropy.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/row_exponentials.h"

#include <cmath>
#include <limits>

namespace plimsoll {

template <class T>
void vocab_max(const T* logits, T* local_max, int64_t rows, const VocabShare& share,
               ThreadPool& pool) {
  for_each_row(rows, share.columns, pool, [=](int64_t r) {
    local_max[r] = share.valid() == 0 ? -std::numeric_limits<T>::infinity()
                                      : max_element(logits + r * share.columns, share.valid());
  });
}

template <class T>
void vocab_sums(const T* logits, const int32_t* targets, const T* row_max, T* sums,
                int64_t sums_stride, T absent, int64_t rows, const VocabShare& share,
                ThreadPool& pool) {
  for_each_row(rows, share.columns, pool, [=](int64_t r) {
    const T* row = logits + r * share.columns;
    sums[r] = share.valid() == 0 ? T{0} : sum_of_exponentials(row, row_max[r], share.valid());
    const int64_t target = targets[r] - share.first;
    const bool here = targets[r] != kIgnoredTarget && target >= 0 && target < share.valid();
    sums[sums_stride + r] = here ? row[target] - row_max[r] : absent;
  });
}

template <class T>
void vocab_rescale(const T* from, const T* local_max, const T* row_max, T* to, int64_t rows,
                   ThreadPool& pool) {
  for_each_row(rows, 1, pool, [=](int64_t r) {
    const T shift = local_max[r] - row_max[r];
    to[r] = from[r] == T{0} ? T{0} : from[r] * exp_value(shift);
    const T target = from[rows + r];
    to[rows + r] = target > T{0} ? T{0} : target + shift;
  });
}

template <class T>
void vocab_loss(const int32_t* targets, const T* row_max, const T* sums, T* row_loss, T* lse,
                int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    const T log_sum = std::log(sums[r]);
    lse[r] = row_max[r] + log_sum;
    row_loss[r] = targets[r] == kIgnoredTarget ? T{0} : log_sum - sums[rows + r];
  }
}

template <class T>
void vocab_backward(const T* logits, const int32_t* targets, const T* lse, T* dlogits, double scale,
                    int64_t rows, const VocabShare& share, ThreadPool& pool) {
  const T factor = static_cast<T>(scale);
  for_each_row(rows, share.columns, pool, [=](int64_t r) {
    const T* row = logits + r * share.columns;
    T* out = dlogits + r * share.columns;
    const int64_t valid = targets[r] == kIgnoredTarget ? 0 : share.valid();
    const int64_t target = targets[r] - share.first;
    const bool here = target >= 0 && target < valid;
    const T row_lse = lse[r];
    const T of_target = here ? (exp_value(row[target] - row_lse) - T{1}) * factor : T{0};
    PLIMSOLL_INDEPENDENT
    for (int64_t i = 0; i < valid; ++i) out[i] = exp_value(row[i] - row_lse) * factor;
    std::fill(out + valid, out + share.columns, T{0});
    if (here) out[target] = of_target;
  });
}

#define PLIMSOLL_INSTANTIATE(T)                                                            \
  template void vocab_max<T>(const T*, T*, int64_t, const VocabShare&, ThreadPool&);       \
  template void vocab_sums<T>(const T*, const int32_t*, const T*, T*, int64_t, T, int64_t, \
                              const VocabShare&, ThreadPool&);                             \
  template void vocab_rescale<T>(const T*, const T*, const T*, T*, int64_t, ThreadPool&);  \
  template void vocab_loss<T>(const int32_t*, const T*, const T*, T*, T*, int64_t);        \
  template void vocab_backward<T>(const T*, const int32_t*, const T*, T*, double, int64_t, \
                                  const VocabShare&, ThreadPool&);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
