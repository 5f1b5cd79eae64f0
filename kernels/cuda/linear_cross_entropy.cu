#include "kernels/cuda/cross_entropy.h"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/linear_cross_entropy.h"

#include <algorithm>

namespace plimsoll::cuda {
namespace {

// body(first row, rows) for each chunk in order.
template <class Body>
void for_each_chunk(const LinearCrossEntropyShape& shape, const Body& body) {
  const int64_t step = shape.chunk_rows();
  for (int64_t row = 0; row < shape.rows; row += step) body(row, std::min(step, shape.rows - row));
}

}  // namespace

void linear_cross_entropy_forward(const float* x, const float* w, const int32_t* targets,
                                  double* loss, bool accumulate, float* row_loss, float* lse,
                                  float* logits, const LinearCrossEntropyShape& shape,
                                  const Queue& queue) {
  for_each_chunk(shape, [&](int64_t row, int64_t rows) {
    linear_forward(x + row * shape.channels, w, nullptr, logits, rows, shape.channels,
                   shape.vocabulary, queue);
    cross_entropy_rows(logits, targets + row, row_loss + row, lse + row, rows, shape.vocabulary,
                       queue);
  });
  sum_row_loss(row_loss, loss, accumulate, shape.rows, queue);
}

void linear_cross_entropy_backward(const float* x, const float* w, const int32_t* targets,
                                   const float* lse, const double* scale, float* dx, float* dw,
                                   bool accumulate_dw, float* logits,
                                   const LinearCrossEntropyShape& shape, const Queue& queue) {
  for_each_chunk(shape, [&](int64_t row, int64_t rows) {
    const float* x_chunk = x + row * shape.channels;
    linear_forward(x_chunk, w, nullptr, logits, rows, shape.channels, shape.vocabulary, queue);
    cross_entropy_backward(logits, targets + row, lse + row, logits, scale, rows, shape.vocabulary,
                           queue);
    linear_backward_input(logits, w, dx + row * shape.channels, false, rows, shape.channels,
                          shape.vocabulary, queue);
    linear_backward_weight(x_chunk, logits, dw, accumulate_dw || row > 0, rows, shape.channels,
                           shape.vocabulary, queue);
  });
}

}  // namespace plimsoll::cuda
