// Bindings of the losses whose vocabulary is shared out over the tensor-parallel ranks.
#include "executor/bind_tables.h"
#include "kernels/cpu/cross_entropy.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/vocab_cross_entropy.h"
#include "program/program.h"

namespace plimsoll {
namespace {

VocabShare share_of(const KernelArgs& a, int64_t columns) {
  return {columns, a.tp_place * columns, a.attributes->get_int("vocabulary")};
}

double gradient_scale(const Operand& scalars) { return scalars.as<double>()[kScalarGradientScale]; }

template <class T>
void largest(const KernelArgs& a) {
  const Operand& logits = a.in[0];
  vocab_max<T>(logits.as<T>(), a.out[0].as<T>(), logits.rows(), share_of(a, logits.last()),
               *a.pool);
}

template <class T>
void sums(const KernelArgs& a) {
  const Operand& logits = a.in[0];
  vocab_sums<T>(logits.as<T>(), a.in[1].as<int32_t>(), a.in[2].as<T>(), a.out[0].as<T>(),
                logits.rows(), T{0}, logits.rows(), share_of(a, logits.last()), *a.pool);
}

template <class T>
void loss(const KernelArgs& a) {
  const int64_t rows = a.in[1].size();
  T* row_loss = a.out[1].as<T>();
  vocab_loss<T>(a.in[0].as<int32_t>(), a.in[1].as<T>(), a.in[2].as<T>(), row_loss, a.out[2].as<T>(),
                rows);
  sum_row_loss<T>(row_loss, a.out[0].as<double>(), a.accumulates(0), rows);
}

template <class T>
void loss_gradient(const KernelArgs& a) {
  const Operand& logits = a.in[0];
  vocab_backward<T>(logits.as<T>(), a.in[1].as<int32_t>(), a.in[2].as<T>(), a.out[0].as<T>(),
                    gradient_scale(a.in[3]), logits.rows(), share_of(a, logits.last()), *a.pool);
}

// body(first row, rows, logits of these rows) for each chunk of rows in order; x [R,C], w [V,C].
template <class T, class Body>
void for_each_chunk(const KernelArgs& a, const Operand& logits, const Body& body) {
  const Operand& x = a.in[0];
  const Operand& w = a.in[1];
  const int64_t rows = x.rows();
  const int64_t step = logits.rows();
  for (int64_t row = 0; row < rows; row += step) {
    const int64_t count = std::min(step, rows - row);
    linear_forward<T>(x.as<T>() + row * x.last(), w.as<T>(), nullptr, logits.as<T>(), count,
                      x.last(), w.extent(0), *a.pool);
    body(row, count);
  }
}

template <class T>
void head_local(const KernelArgs& a) {
  const Operand& logits = a.out[2];
  const VocabShare share = share_of(a, a.in[1].extent(0));
  for_each_chunk<T>(a, logits, [&](int64_t row, int64_t count) {
    T* local_max = a.out[0].as<T>() + row;
    vocab_max<T>(logits.as<T>(), local_max, count, share, *a.pool);
    vocab_sums<T>(logits.as<T>(), a.in[2].as<int32_t>() + row, local_max, a.out[1].as<T>() + row,
                  a.in[0].rows(), T{kAbsentTarget}, count, share, *a.pool);
  });
}

template <class T>
void head_rescale(const KernelArgs& a) {
  vocab_rescale<T>(a.in[0].as<T>(), a.in[1].as<T>(), a.in[2].as<T>(), a.out[0].as<T>(),
                   a.in[1].size(), *a.pool);
}

template <class T>
void head_gradients(const KernelArgs& a) {
  const Operand& w = a.in[1];
  const Operand& logits = a.out[2];
  const int64_t channels = w.extent(1);
  const VocabShare share = share_of(a, w.extent(0));
  for_each_chunk<T>(a, logits, [&](int64_t row, int64_t count) {
    T* values = logits.as<T>();
    vocab_backward<T>(values, a.in[2].as<int32_t>() + row, a.in[3].as<T>() + row, values,
                      gradient_scale(a.in[4]), count, share, *a.pool);
    linear_backward_input<T>(values, w.as<T>(), a.out[0].as<T>() + row * channels, false, count,
                             channels, share.columns, *a.pool);
    linear_backward_weight<T>(a.in[0].as<T>() + row * channels, values, a.out[1].as<T>(),
                              a.accumulates(1) || row > 0, count, channels, share.columns, *a.pool);
  });
}

constexpr KernelEntry kEntries[] = {
    PLIMSOLL_KERNEL("vocab_cross_entropy.max", largest),
    PLIMSOLL_KERNEL("vocab_cross_entropy.sums", sums),
    PLIMSOLL_KERNEL("vocab_cross_entropy", loss),
    PLIMSOLL_KERNEL("vocab_cross_entropy.backward", loss_gradient),
    PLIMSOLL_KERNEL("vocab_linear_cross_entropy.local", head_local),
    PLIMSOLL_KERNEL("vocab_linear_cross_entropy.rescale", head_rescale),
    PLIMSOLL_KERNEL("vocab_linear_cross_entropy.backward", head_gradients),
};

}  // namespace

std::span<const KernelEntry> vocab_kernels() { return kEntries; }

}  // namespace plimsoll
