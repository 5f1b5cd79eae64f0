// Which sample of a finite data set is sample `j` of global batch `b`.
#pragma once

#include "base/checked.h"
#include "base/rng.h"
#include "executor/data.h"

#include <cstdint>
#include <optional>

namespace plimsoll {

// Samples [0, num_train) train, [num_train, num_train + num_validation) validate. Training runs
// through a new permutation every epoch, a function of (seed, epoch) alone; validation runs through
// its samples once, in order.
class SampleOrder {
 public:
  // Throws Error (exit 2) naming `what` when no sample is left to train on.
  SampleOrder(int64_t num_samples, int64_t global_batch, const DataOptions& options,
              const std::string& what);

  [[nodiscard]] int64_t num_samples(Split split) const {
    return split == Split::kTrain ? num_train_ : num_validation_;
  }

  // Empty past the end of the validation set: that sample counts nothing.
  [[nodiscard]] std::optional<int64_t> sample(Split split, int64_t batch, int64_t index) const;

  // Samples of global batch `batch` that exist.
  [[nodiscard]] int64_t num_in_batch(Split split, int64_t batch) const;

 private:
  [[nodiscard]] int64_t position(int64_t batch, int64_t index) const {
    return checked_add(checked_mul(batch, global_batch_), index);
  }

  int64_t num_train_ = 0;
  int64_t num_validation_ = 0;
  int64_t global_batch_ = 1;
  uint64_t seed_ = 0;
  bool shuffle_ = true;
};

}  // namespace plimsoll
