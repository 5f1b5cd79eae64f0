#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_heads.h"
#include "kernels/cpu/elementwise.h"

#include <algorithm>
#include <cmath>

namespace plimsoll {
namespace {

// A block of probabilities after dropout, on the stack of a task.
constexpr int64_t kRows = 64;
constexpr int64_t kColumns = 128;

template <class T>
T score_scale(const AttentionShape& s) {
  return static_cast<T>(1 / std::sqrt(static_cast<double>(s.head_dim)));
}

int64_t visible_keys(const AttentionShape& s, int64_t query) {
  return s.causal ? query + 1 : s.length;
}

// Softmax in place over the keys that the query may look at; the others get 0.
template <class T>
void softmax_row(T* row, int64_t visible, int64_t length) {
  const T largest = max_element(row, visible);
  for (int64_t j = 0; j < visible; ++j) row[j] = exp_value(row[j] - largest);
  const T inverse = T{1} / sum(row, visible);
  for (int64_t j = 0; j < visible; ++j) row[j] *= inverse;
  std::fill(row + visible, row + length, T{0});
}

// body(probabilities after dropout [rows, columns] with their stride, first row, rows, first
// column, columns) over blocks of one head's probs [T,T], in row-major order.
template <class T, class Body>
void for_each_kept_block(const T* probs, const AttentionShape& s, HeadIndex i, const Body& body) {
  if (!s.dropout.active()) {
    body(MatrixView<const T>{probs, s.length}, 0, s.length, 0, s.length);
    return;
  }
  T kept[kRows * kColumns];
  for (int64_t row = 0; row < s.length; row += kRows) {
    const int64_t rows = std::min(kRows, s.length - row);
    for (int64_t column = 0; column < s.length; column += kColumns) {
      const int64_t columns = std::min(kColumns, s.length - column);
      for (int64_t r = 0; r < rows; ++r) {
        apply_dropout(probs + (row + r) * s.length + column, kept + r * kColumns, s, i, row + r,
                      column, columns);
      }
      body(MatrixView<const T>{kept, kColumns}, row, rows, column, columns);
    }
  }
}

}  // namespace

template <class T>
void naive_attention_forward(const T* qkv, T* o, T* probs, const AttentionShape& shape,
                             ThreadPool& pool) {
  const int64_t length = shape.length;
  const int64_t width = shape.qkv_width();
  for_each_group(shape, pool, [&](HeadIndex i) {
    const PackedHeads<const T> heads = packed_heads(qkv, shape, i);
    T* p = probs + head_number(shape, i) * length * length;
    T* out = out_head(o, shape, i);
    gemm<T>(length, length, shape.head_dim, score_scale<T>(shape), {heads.q, width},
            {heads.k, width, true}, false, p, length);
    for (int64_t t = 0; t < length; ++t)
      softmax_row(p + t * length, visible_keys(shape, t), length);
    for_each_kept_block<T>(
        p, shape, i,
        [&](MatrixView<const T> kept, int64_t row, int64_t rows, int64_t column, int64_t columns) {
          gemm<T>(rows, shape.head_dim, columns, T{1}, kept, {heads.v + column * width, width},
                  column != 0, out + row * shape.out_width(), shape.out_width());
        });
  });
}

template <class T>
void naive_attention_backward(const T* d_o, const T* qkv, const T* probs, T* dqkv, T* workspace,
                              const AttentionShape& shape, ThreadPool& pool) {
  const int64_t length = shape.length;
  const int64_t width = shape.qkv_width();
  const T scale = score_scale<T>(shape);
  for_each_group(shape, pool, [&](HeadIndex i) {
    const PackedHeads<const T> heads = packed_heads(qkv, shape, i);
    const PackedHeads<T> d_heads = packed_heads(dqkv, shape, i);
    const T* p = probs + head_number(shape, i) * length * length;
    T* ds = workspace + head_number(shape, i) * length * length;
    const MatrixView<const T> d_out{out_head(d_o, shape, i), shape.out_width()};
    const bool first_of_group = i.h == i.kv * shape.group();
    for_each_kept_block<T>(
        p, shape, i,
        [&](MatrixView<const T> kept, int64_t row, int64_t rows, int64_t column, int64_t columns) {
          gemm<T>(columns, shape.head_dim, rows, T{1}, {kept.data, kept.stride, true},
                  {d_out.data + row * d_out.stride, d_out.stride}, row != 0 || !first_of_group,
                  d_heads.v + column * width, width);
        });
    gemm<T>(length, length, shape.head_dim, T{1}, d_out, {heads.v, width, true}, false, ds, length);
    for (int64_t t = 0; t < length; ++t) {
      T* row = ds + t * length;
      const T* p_row = p + t * length;
      if (shape.dropout.active()) apply_dropout(row, row, shape, i, t, 0, length);
      const T row_dot = dot(p_row, row, length);
      for (int64_t j = 0; j < length; ++j) row[j] = p_row[j] * (row[j] - row_dot) * scale;
    }
    gemm<T>(length, shape.head_dim, length, T{1}, {ds, length}, {heads.k, width}, false, d_heads.q,
            width);
    gemm<T>(length, shape.head_dim, length, T{1}, {ds, length, true}, {heads.q, width},
            !first_of_group, d_heads.k, width);
  });
}

#define PLIMSOLL_INSTANTIATE(T)                                                                   \
  template void naive_attention_forward<T>(const T*, T*, T*, const AttentionShape&, ThreadPool&); \
  template void naive_attention_backward<T>(const T*, const T*, const T*, T*, T*,                 \
                                            const AttentionShape&, ThreadPool&);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
