// Bindings of the update: gradient norm, clipping, optimizers, running statistics. All that changes
// from step to step is read from the scalars operand.
#include "base/error.h"
#include "executor/bind_scalars.h"
#include "executor/bind_tables.h"
#include "executor/exchange.h"
#include "kernels/cpu/adam.h"
#include "kernels/cpu/adamw.h"
#include "kernels/cpu/batch_norm.h"
#include "kernels/cpu/gradient_norm.h"
#include "kernels/cpu/lion.h"
#include "kernels/cpu/sgd.h"
#include "program/program.h"

#include <algorithm>
#include <cmath>

namespace plimsoll {
namespace {

// What of the operands this rank works on: under `shards` its part of a list of `elements`.
struct Share {
  explicit Share(const KernelArgs& a, const Operand& like)
      : shards(a.attributes->get_int("shards", 1)),
        elements(a.attributes->get_int("elements", like.size())),
        place(a.dp_place) {}

  [[nodiscard]] int64_t length() const { return own_part(elements, shards, place, 0).length; }
  // Where the share begins in an operand that holds all or the share alone.
  template <class T>
  [[nodiscard]] T* of(const Operand& operand) const {
    return operand.as<T>() + own_part(elements, shards, place, operand.size()).offset;
  }

  int64_t shards, elements;
  int place;
};

// Adam's forms have the same operands and attributes.
template <class T>
using AdamForm = void (*)(T*, const T*, T*, T*, const AdamwOptions&, int64_t, ThreadPool&);

template <class T>
void update_by(AdamForm<T> form, const KernelArgs& a) {
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
  const Share share(a, a.out[0]);
  form(share.of<T>(a.out[0]), share.of<T>(a.in[1]), share.of<T>(a.out[1]), share.of<T>(a.out[2]),
       options, share.length(), *a.pool);
}

template <class T>
void update_adamw(const KernelArgs& a) {
  update_by<T>(adamw<T>, a);
}

template <class T>
void update_adam(const KernelArgs& a) {
  update_by<T>(adam<T>, a);
}

template <class T>
void update_lion(const KernelArgs& a) {
  const double* scalars = a.in[3].as<double>();
  if (skips_update(scalars)) return;
  const LionOptions options = {
      .beta1 = a.attributes->get_double("beta1"),
      .beta2 = a.attributes->get_double("beta2"),
      .weight_decay = a.attributes->get_double("weight_decay"),
      .learning_rate = scalars[kScalarLearningRate],
      .clip_factor = scalars[kScalarClipFactor],
  };
  const Share share(a, a.out[0]);
  lion<T>(share.of<T>(a.out[0]), share.of<T>(a.in[1]), share.of<T>(a.out[1]), options,
          share.length(), *a.pool);
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
  const Share share(a, a.out[0]);
  T* momentum = a.out.size() > 1 ? share.of<T>(a.out[1]) : nullptr;
  sgd<T>(share.of<T>(a.out[0]), share.of<T>(a.in[1]), momentum, options, share.length(), *a.pool);
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
  // Of the share, what lies in the elements [first, first + count) of the whole.
  const Operand& x = a.in[0];
  const Share share(a, x);
  const OwnPart own = own_part(share.elements, share.shards, share.place, x.size());
  const int64_t first = a.attributes->get_int("first", 0);
  const int64_t count = a.attributes->get_int("count", share.elements);
  const int64_t begin = std::max(first, own.first);
  const int64_t end = std::min(first + count, own.first + own.length);
  double& term = a.out[0].as<double>()[index];
  if (!a.attributes->has("count")) term = 0;
  if (begin >= end) return;
  const double sum =
      sum_squares<T>(x.as<T>() + own.offset + begin - own.first, end - begin, *a.pool);
  term += a.attributes->get_double("scale", 1) * sum;
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
    PLIMSOLL_KERNEL("adam", update_adam),
    PLIMSOLL_KERNEL("lion", update_lion),
    PLIMSOLL_KERNEL("sgd", update_sgd),
    PLIMSOLL_KERNEL("ema", update_ema),
    PLIMSOLL_KERNEL("sum_squares", write_sum_squares),
    {"sum_terms", write_sum_terms, write_sum_terms},
    {"clip", write_clip, write_clip},
};

}  // namespace

std::span<const KernelEntry> update_kernels() { return kEntries; }

}  // namespace plimsoll
