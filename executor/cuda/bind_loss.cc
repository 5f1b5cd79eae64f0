// CUDA bindings of losses and of the update; operands as on the CPU. What changes from step to step
// is read by the kernels from the scalars on the device.
#include "base/error.h"
#include "executor/cuda/bind_tables.h"
#include "kernels/cuda/adamw.h"
#include "kernels/cuda/cross_entropy.h"
#include "kernels/cuda/gradient_norm.h"
#include "kernels/cuda/linear_cross_entropy.h"
#include "kernels/cuda/mse.h"
#include "kernels/cuda/sgd.h"
#include "program/program.h"

namespace plimsoll {
namespace {

const double* slot(const Operand& scalars, Scalar index) { return scalars.as<double>() + index; }

void cross_entropy(const KernelArgs& a) {
  const Operand& logits = a.in[0];
  cuda::cross_entropy_rows(f32(logits), a.in[1].as<int32_t>(), f32(a.out[1]), f32(a.out[2]),
                           logits.rows(), logits.last(), *a.queue);
  cuda::sum_row_loss(f32(a.out[1]), a.out[0].as<double>(), a.accumulates(0), logits.rows(),
                     *a.queue);
}

void cross_entropy_gradient(const KernelArgs& a) {
  const Operand& logits = a.in[0];
  cuda::cross_entropy_backward(f32(logits), a.in[1].as<int32_t>(), f32(a.in[2]), f32(a.out[0]),
                               slot(a.in[3], kScalarGradientScale), logits.rows(), logits.last(),
                               *a.queue);
}

cuda::LinearCrossEntropyShape linear_shape(const KernelArgs& a) {
  return {a.in[0].rows(), a.in[0].last(), a.in[1].extent(0), a.attributes->get_int("chunks")};
}

void linear_cross_entropy(const KernelArgs& a) {
  cuda::linear_cross_entropy_forward(f32(a.in[0]), f32(a.in[1]), a.in[2].as<int32_t>(),
                                     a.out[0].as<double>(), a.accumulates(0), f32(a.out[1]),
                                     f32(a.out[2]), f32(a.out[3]), linear_shape(a), *a.queue);
}

void linear_cross_entropy_gradients(const KernelArgs& a) {
  cuda::linear_cross_entropy_backward(f32(a.in[0]), f32(a.in[1]), a.in[2].as<int32_t>(),
                                      f32(a.in[3]), slot(a.in[4], kScalarGradientScale),
                                      f32(a.out[0]), f32(a.out[1]), a.accumulates(1), f32(a.out[2]),
                                      linear_shape(a), *a.queue);
}

void count_correct(const KernelArgs& a) {
  const Operand& logits = a.in[0];
  cuda::count_correct(f32(logits), a.in[1].as<int32_t>(), a.out[0].as<double>(), a.accumulates(0),
                      logits.rows(), logits.last(), *a.queue);
}

void mse(const KernelArgs& a) {
  const Operand& prediction = a.in[0];
  cuda::mse_rows(f32(prediction), f32(a.in[1]), f32(a.out[1]), prediction.rows(), prediction.last(),
                 *a.queue);
  cuda::sum_row_loss(f32(a.out[1]), a.out[0].as<double>(), a.accumulates(0), prediction.rows(),
                     *a.queue);
}

void mse_gradient(const KernelArgs& a) {
  cuda::mse_backward(f32(a.in[0]), f32(a.in[1]), f32(a.out[0]), slot(a.in[2], kScalarGradientScale),
                     a.in[0].size(), *a.queue);
}

void update_adamw(const KernelArgs& a) {
  const Operand& scalars = a.in[4];
  const double beta1 = a.attributes->get_double("beta1");
  const double beta2 = a.attributes->get_double("beta2");
  cuda::AdamwOptions o;
  o.beta1 = static_cast<float>(beta1);
  o.beta2 = static_cast<float>(beta2);
  o.rest1 = static_cast<float>(1 - beta1);
  o.rest2 = static_cast<float>(1 - beta2);
  o.epsilon = static_cast<float>(a.attributes->get_double("epsilon"));
  o.weight_decay = static_cast<float>(a.attributes->get_double("weight_decay"));
  o.learning_rate = slot(scalars, kScalarLearningRate);
  o.bias_correction1 = slot(scalars, kScalarBiasCorrection1);
  o.bias_correction2 = slot(scalars, kScalarBiasCorrection2);
  o.clip_factor = slot(scalars, kScalarClipFactor);
  o.skip = slot(scalars, kScalarSkipUpdate);
  cuda::adamw(f32(a.out[0]), f32(a.in[1]), f32(a.out[1]), f32(a.out[2]), o, a.out[0].size(),
              *a.queue);
}

void update_sgd(const KernelArgs& a) {
  const Operand& scalars = a.in.back();  // momentum may be left out
  cuda::SgdOptions o;
  o.momentum = static_cast<float>(a.attributes->get_double("momentum"));
  o.weight_decay = static_cast<float>(a.attributes->get_double("weight_decay"));
  o.learning_rate = slot(scalars, kScalarLearningRate);
  o.clip_factor = slot(scalars, kScalarClipFactor);
  o.skip = slot(scalars, kScalarSkipUpdate);
  float* momentum = a.out.size() > 1 ? f32(a.out[1]) : nullptr;
  cuda::sgd(f32(a.out[0]), f32(a.in[1]), momentum, o, a.out[0].size(), *a.queue);
}

void sum_squares(const KernelArgs& a) {
  const int64_t index = a.attributes->get_int("index");
  PLIMSOLL_CHECK(index >= 0 && index < a.out[0].size(), "sum_squares: index {} of {}", index,
                 a.out[0].size());
  cuda::sum_squares(f32(a.in[0]), a.out[0].as<double>() + index, a.in[0].size(), *a.queue);
}

void sum_terms(const KernelArgs& a) {
  cuda::sum_terms(a.in[0].as<double>(), a.out[0].as<double>(), a.accumulates(0), a.in[0].size(),
                  *a.queue);
}

void clip(const KernelArgs& a) {
  auto* scalars = a.out[0].as<double>();
  cuda::clip(a.in[0].as<double>(), scalars + kScalarGradientNorm, scalars + kScalarClipFactor,
             a.attributes->get_double("max_norm"), a.in[0].size(), *a.queue);
}

constexpr CudaKernelEntry kEntries[] = {
    {"cross_entropy", cross_entropy},
    {"cross_entropy.backward", cross_entropy_gradient},
    {"linear_cross_entropy", linear_cross_entropy},
    {"linear_cross_entropy.backward", linear_cross_entropy_gradients},
    {"count_correct", count_correct},
    {"mse", mse},
    {"mse.backward", mse_gradient},
    {"adamw", update_adamw},
    {"sgd", update_sgd},
    {"sum_squares", sum_squares},
    {"sum_terms", sum_terms},
    {"clip", clip},
};

}  // namespace

std::span<const CudaKernelEntry> cuda_loss_and_update_kernels() { return kEntries; }

}  // namespace plimsoll
