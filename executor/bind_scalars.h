// What the bindings read from the scalars buffer; included by bind*.cc only.
#pragma once

#include "base/error.h"
#include "executor/bind.h"
#include "kernels/cpu/dropout.h"
#include "program/program.h"

namespace plimsoll {

// The dropout mask of an instruction at this step; keeps all when the probability is 0.
[[nodiscard]] inline DropoutMask dropout_mask(const KernelArgs& a, double probability) {
  if (probability == 0) return {};
  PLIMSOLL_CHECK(a.scalars != nullptr, "dropout of {} without scalars", probability);
  const uint64_t seed = dropout_seed(static_cast<uint64_t>(a.scalars[kScalarSeed]),
                                     static_cast<uint64_t>(a.scalars[kScalarStep]));
  return {probability, seed, static_cast<uint64_t>(a.attributes->get_int("key", 0))};
}

[[nodiscard]] inline bool skips_update(const double* scalars) {
  return scalars[kScalarSkipUpdate] != 0;
}

}  // namespace plimsoll
