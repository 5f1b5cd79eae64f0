#include "kernels/cpu/cross_entropy.h"

#include "base/error.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/row_exponentials.h"

#include <cmath>

namespace plimsoll {
template <class T>
void cross_entropy_rows(const T* logits, const int32_t* targets, T* row_loss, T* lse, int64_t rows,
                        int64_t vocabulary, ThreadPool& pool) {
  for_each_row(rows, vocabulary, pool, [=](int64_t r) {
    const T* row = logits + r * vocabulary;
    const T largest = max_element(row, vocabulary);
    lse[r] = largest + std::log(sum_of_exponentials(row, largest, vocabulary));
    const int32_t target = targets[r];
    PLIMSOLL_CHECK(target == kIgnoredTarget || (target >= 0 && target < vocabulary),
                   "target {} of {}", target, vocabulary);
    row_loss[r] = target == kIgnoredTarget ? T{0} : lse[r] - row[target];
  });
}

template <class T>
void cross_entropy_backward(const T* logits, const int32_t* targets, const T* lse, T* dlogits,
                            double scale, int64_t rows, int64_t vocabulary, ThreadPool& pool) {
  const T factor = static_cast<T>(scale);
  for_each_row(rows, vocabulary, pool, [=](int64_t r) {
    const T* row = logits + r * vocabulary;
    T* out = dlogits + r * vocabulary;
    const int32_t target = targets[r];
    if (target == kIgnoredTarget) {
      std::fill_n(out, vocabulary, T{0});
      return;
    }
    const T row_lse = lse[r];
    const T of_target = (exp_value(row[target] - row_lse) - T{1}) * factor;
    PLIMSOLL_INDEPENDENT
    for (int64_t i = 0; i < vocabulary; ++i) out[i] = exp_value(row[i] - row_lse) * factor;
    out[target] = of_target;
  });
}

template <class T>
void sum_row_loss(const T* row_loss, double* loss, bool accumulate, int64_t rows) {
  double total = 0;
  for (int64_t r = 0; r < rows; ++r) total += static_cast<double>(row_loss[r]);
  loss[0] = accumulate ? loss[0] + total : total;
}

template <class T>
void count_correct(const T* logits, const int32_t* targets, double* correct, bool accumulate,
                   int64_t rows, int64_t vocabulary) {
  int64_t count = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = logits + r * vocabulary;
    count += std::max_element(row, row + vocabulary) - row == targets[r] ? 1 : 0;
  }
  const auto total = static_cast<double>(count);
  correct[0] = accumulate ? correct[0] + total : total;
}

#define PLIMSOLL_INSTANTIATE(T)                                                                    \
  template void cross_entropy_rows<T>(const T*, const int32_t*, T*, T*, int64_t, int64_t,          \
                                      ThreadPool&);                                                \
  template void cross_entropy_backward<T>(const T*, const int32_t*, const T*, T*, double, int64_t, \
                                          int64_t, ThreadPool&);                                   \
  template void count_correct<T>(const T*, const int32_t*, double*, bool, int64_t, int64_t);       \
  template void sum_row_loss<T>(const T*, double*, bool, int64_t);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
