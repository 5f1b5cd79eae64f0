// Bindings of the losses. The gradient's scale, 1 / (valid targets of the global batch), is read
// from the scalars operand.
#include "executor/bind_tables.h"
#include "kernels/cpu/cross_entropy.h"
#include "kernels/cpu/linear_cross_entropy.h"
#include "kernels/cpu/mse.h"
#include "program/program.h"

namespace plimsoll {
namespace {

double gradient_scale(const Operand& scalars) { return scalars.as<double>()[kScalarGradientScale]; }

template <class T>
void cross_entropy(const KernelArgs& a) {
  const Operand& logits = a.in[0];
  T* row_loss = a.out[1].as<T>();
  cross_entropy_rows<T>(logits.as<T>(), a.in[1].as<int32_t>(), row_loss, a.out[2].as<T>(),
                        logits.rows(), logits.last(), *a.pool);
  sum_row_loss<T>(row_loss, a.out[0].as<double>(), a.accumulates(0), logits.rows());
}

template <class T>
void cross_entropy_gradient(const KernelArgs& a) {
  const Operand& logits = a.in[0];
  cross_entropy_backward<T>(logits.as<T>(), a.in[1].as<int32_t>(), a.in[2].as<T>(),
                            a.out[0].as<T>(), gradient_scale(a.in[3]), logits.rows(), logits.last(),
                            *a.pool);
}

LinearCrossEntropyShape linear_cross_entropy_shape(const KernelArgs& a) {
  return {a.in[0].rows(), a.in[0].last(), a.in[1].extent(0), a.attributes->get_int("chunks")};
}

template <class T>
void linear_cross_entropy(const KernelArgs& a) {
  linear_cross_entropy_forward<T>(a.in[0].as<T>(), a.in[1].as<T>(), a.in[2].as<int32_t>(),
                                  a.out[0].as<double>(), a.accumulates(0), a.out[1].as<T>(),
                                  a.out[2].as<T>(), a.out[3].as<T>(), linear_cross_entropy_shape(a),
                                  *a.pool);
}

template <class T>
void linear_cross_entropy_gradients(const KernelArgs& a) {
  linear_cross_entropy_backward<T>(a.in[0].as<T>(), a.in[1].as<T>(), a.in[2].as<int32_t>(),
                                   a.in[3].as<T>(), gradient_scale(a.in[4]), a.out[0].as<T>(),
                                   a.out[1].as<T>(), a.accumulates(1), a.out[2].as<T>(),
                                   linear_cross_entropy_shape(a), *a.pool);
}

template <class T>
void mse(const KernelArgs& a) {
  const Operand& prediction = a.in[0];
  T* row_loss = a.out[1].as<T>();
  mse_rows<T>(prediction.as<T>(), a.in[1].as<T>(), row_loss, prediction.rows(), prediction.last(),
              *a.pool);
  sum_row_loss<T>(row_loss, a.out[0].as<double>(), a.accumulates(0), prediction.rows());
}

template <class T>
void mse_gradient(const KernelArgs& a) {
  mse_backward<T>(a.in[0].as<T>(), a.in[1].as<T>(), a.out[0].as<T>(), gradient_scale(a.in[2]),
                  a.in[0].size(), *a.pool);
}

template <class T>
void count_correct_rows(const KernelArgs& a) {
  const Operand& logits = a.in[0];
  count_correct<T>(logits.as<T>(), a.in[1].as<int32_t>(), a.out[0].as<double>(), a.accumulates(0),
                   logits.rows(), logits.last());
}

constexpr KernelEntry kEntries[] = {
    PLIMSOLL_KERNEL("count_correct", count_correct_rows),
    PLIMSOLL_KERNEL("cross_entropy", cross_entropy),
    PLIMSOLL_KERNEL("cross_entropy.backward", cross_entropy_gradient),
    PLIMSOLL_KERNEL("linear_cross_entropy", linear_cross_entropy),
    PLIMSOLL_KERNEL("linear_cross_entropy.backward", linear_cross_entropy_gradients),
    PLIMSOLL_KERNEL("mse", mse),
    PLIMSOLL_KERNEL("mse.backward", mse_gradient),
};

}  // namespace

std::span<const KernelEntry> loss_kernels() { return kEntries; }

}  // namespace plimsoll
