// Bindings of the update: gradient norm, clipping, optimizers, running statistics. All that changes
// from step to step is read from the scalars operand.
#include "base/error.h"
#include "executor/bind_scalars.h"
#include "executor/bind_tables.h"
#include "kernels/cpu/adamw.h"
#include "kernels/cpu/batch_norm.h"
#include "kernels/cpu/gradient_norm.h"
#include "kernels/cpu/sgd.h"
#include "program/program.h"

#include <cmath>

namespace plimsoll {
namespace {

template <class T>
void update_adamw(const KernelArgs& a) {
  const double* scalars = a.in[4].as<double>();
  if (skips_update(scalars)) return;
  const AdamwOptions options = {
      .beta1 = a.attributes->get_double("beta1"),
      .beta2 = a.attributes->get_double("beta2"),
      .epsilon = a.attributes->get_double("epsilon"),
      .weight_decay = a.attributes->get_double("weight_decay"),
      .learning_rate = scalars[kScalarLearningRate],
      .bias_correction1 = scalars[kScalarBiasCorrection1],
      .bias_correction2 = scalars[kScalarBiasCorrection2],
      .clip_factor = scalars[kScalarClipFactor],
  };
  adamw<T>(a.out[0].as<T>(), a.in[1].as<T>(), a.out[1].as<T>(), a.out[2].as<T>(), options,
           a.out[0].size(), *a.pool);
}

template <class T>
void update_sgd(const KernelArgs& a) {
  const double* scalars = a.in.back().as<double>();  // momentum may be left out
  if (skips_update(scalars)) return;
  const SgdOptions options = {
      .momentum = a.attributes->get_double("momentum"),
      .weight_decay = a.attributes->get_double("weight_decay"),
      .learning_rate = scalars[kScalarLearningRate],
      .clip_factor = scalars[kScalarClipFactor],
  };
  T* momentum = a.out.size() > 1 ? a.out[1].as<T>() : nullptr;
  sgd<T>(a.out[0].as<T>(), a.in[1].as<T>(), momentum, options, a.out[0].size(), *a.pool);
}

template <class T>
void update_ema(const KernelArgs& a) {
  if (skips_update(a.in[1].as<double>())) return;
  batch_norm_running<T>(a.in[0].as<T>(), a.out[0].as<T>(), a.attributes->get_double("momentum"),
                        a.attributes->get_double("count"), a.out[0].size(), *a.pool);
}

template <class T>
void write_sum_squares(const KernelArgs& a) {
  const int64_t index = a.attributes->get_int("index");
  PLIMSOLL_CHECK(index >= 0 && index < a.out[0].size(), "sum_squares: index {} of {}", index,
                 a.out[0].size());
  a.out[0].as<double>()[index] = sum_squares<T>(a.in[0].as<T>(), a.in[0].size(), *a.pool);
}

void write_sum_terms(const KernelArgs& a) {
  const double total = sum_terms(a.in[0].as<double>(), a.in[0].size());
  double* out = a.out[0].as<double>();
  out[0] = a.accumulates(0) ? out[0] + total : total;
}

void write_clip(const KernelArgs& a) {
  double* scalars = a.out[0].as<double>();
  const double norm = std::sqrt(sum_terms(a.in[0].as<double>(), a.in[0].size()));
  scalars[kScalarGradientNorm] = norm;
  scalars[kScalarClipFactor] = clip_factor(norm, a.attributes->get_double("max_norm"));
}

constexpr KernelEntry kEntries[] = {
    PLIMSOLL_KERNEL("adamw", update_adamw),
    PLIMSOLL_KERNEL("sgd", update_sgd),
    PLIMSOLL_KERNEL("ema", update_ema),
    PLIMSOLL_KERNEL("sum_squares", write_sum_squares),
    {"sum_terms", write_sum_terms, write_sum_terms},
    {"clip", write_clip, write_clip},
};

}  // namespace

std::span<const KernelEntry> update_kernels() { return kEntries; }

}  // namespace plimsoll
