#include "kernels/cpu/linear_cross_entropy.h"

#include "kernels/cpu/cross_entropy.h"
#include "kernels/cpu/linear.h"

#include <algorithm>

namespace plimsoll {
namespace {

// body(first row, rows) for each chunk in order.
template <class Body>
void for_each_chunk(const LinearCrossEntropyShape& shape, const Body& body) {
  const int64_t step = shape.chunk_rows();
  for (int64_t row = 0; row < shape.rows; row += step) body(row, std::min(step, shape.rows - row));
}

}  // namespace

template <class T>
void linear_cross_entropy_forward(const T* x, const T* w, const int32_t* targets, double* loss,
                                  bool accumulate, T* row_loss, T* lse, T* logits,
                                  const LinearCrossEntropyShape& shape, ThreadPool& pool) {
  for_each_chunk(shape, [&](int64_t row, int64_t rows) {
    linear_forward<T>(x + row * shape.channels, w, nullptr, logits, rows, shape.channels,
                      shape.vocabulary, pool);
    cross_entropy_rows(logits, targets + row, row_loss + row, lse + row, rows, shape.vocabulary,
                       pool);
  });
  sum_row_loss(row_loss, loss, accumulate, shape.rows);
}

template <class T>
void linear_cross_entropy_backward(const T* x, const T* w, const int32_t* targets, const T* lse,
                                   double scale, T* dx, T* dw, bool accumulate_dw, T* logits,
                                   const LinearCrossEntropyShape& shape, ThreadPool& pool) {
  for_each_chunk(shape, [&](int64_t row, int64_t rows) {
    const T* x_chunk = x + row * shape.channels;
    linear_forward<T>(x_chunk, w, nullptr, logits, rows, shape.channels, shape.vocabulary, pool);
    cross_entropy_backward(logits, targets + row, lse + row, logits, scale, rows, shape.vocabulary,
                           pool);
    linear_backward_input<T>(logits, w, dx + row * shape.channels, false, rows, shape.channels,
                             shape.vocabulary, pool);
    linear_backward_weight<T>(x_chunk, logits, dw, accumulate_dw || row > 0, rows, shape.channels,
                              shape.vocabulary, pool);
  });
}

#define PLIMSOLL_INSTANTIATE(T)                                                                    \
  template void linear_cross_entropy_forward<T>(const T*, const T*, const int32_t*, double*, bool, \
                                                T*, T*, T*, const LinearCrossEntropyShape&,        \
                                                ThreadPool&);                                      \
  template void linear_cross_entropy_backward<T>(const T*, const T*, const int32_t*, const T*,     \
                                                 double, T*, T*, bool, T*,                         \
                                                 const LinearCrossEntropyShape&, ThreadPool&);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
