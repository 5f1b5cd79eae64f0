#include "executor/sample_order.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>

namespace plimsoll {

SampleOrder::SampleOrder(int64_t num_samples, int64_t global_batch, const DataOptions& options,
                         const std::string& what)
    : global_batch_(global_batch), seed_(options.seed), shuffle_(options.shuffle) {
  const double fraction = options.validation_fraction;
  if (!(fraction >= 0 && fraction < 1)) {
    throw bad_input(fmt::format("a validation fraction of {}", fraction),
                    "give a number from 0 to below 1");
  }
  if (fraction > 0 && num_samples > 1) {
    // At least one, so that whoever asks for a validation set has one.
    num_validation_ = std::max<int64_t>(
        1, static_cast<int64_t>(std::floor(fraction * static_cast<double>(num_samples))));
  }
  num_train_ = num_samples - num_validation_;
  if (num_train_ < 1) {
    throw bad_input(fmt::format("{}: {} samples leave none to train on", what, num_samples),
                    "give a longer file, or a smaller --seq");
  }
}

std::optional<int64_t> SampleOrder::sample(Split split, int64_t batch, int64_t index) const {
  const int64_t at = position(batch, index);
  if (split == Split::kValidation) {
    if (at >= num_validation_) return std::nullopt;
    return num_train_ + at;
  }
  const int64_t within = at % num_train_;
  if (!shuffle_) return within;
  const auto epoch = static_cast<uint64_t>(at / num_train_);
  return static_cast<int64_t>(rng_permute(seed_, rng_purpose("order") + splitmix64(epoch + 1),
                                          static_cast<uint64_t>(num_train_),
                                          static_cast<uint64_t>(within)));
}

int64_t SampleOrder::num_in_batch(Split split, int64_t batch) const {
  if (split == Split::kTrain) return global_batch_;
  return std::clamp<int64_t>(num_validation_ - position(batch, 0), 0, global_batch_);
}

}  // namespace plimsoll
