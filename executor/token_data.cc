#include "executor/token_data.h"

#include "base/error.h"
#include "base/rng.h"
#include "base/units.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace plimsoll {

namespace {

constexpr int32_t kIgnored = -100;  // a target that counts nothing (docs/ops.md)

class FileSequences final : public TokenSequences {
 public:
  FileSequences(TokenFile file, int64_t seq, int64_t global_batch, const DataOptions& options)
      : file_(std::move(file)),
        seq_(seq),
        order_((file_.size() - 1) / seq, global_batch, options, file_.path()) {}

  bool read(Split split, int64_t batch, int64_t index, int64_t skip, int64_t length,
            int32_t* out) const override {
    const std::optional<int64_t> window = order_.sample(split, batch, index);
    if (!window) return false;
    const int64_t first = *window * seq_ + skip;
    for (int64_t i = 0; i < length; ++i) out[i] = file_[first + i];
    return true;
  }
  [[nodiscard]] int64_t num_in_batch(Split split, int64_t batch) const override {
    return order_.num_in_batch(split, batch);
  }
  [[nodiscard]] std::optional<int64_t> num_samples(Split split) const override {
    return order_.num_samples(split);
  }
  [[nodiscard]] std::string description() const override {
    return fmt::format("{}: {} tokens ({}), {} windows of {} to train, {} to validate",
                       file_.path(), format_count(file_.size()), file_.format(),
                       format_count(order_.num_samples(Split::kTrain)), seq_,
                       format_count(order_.num_samples(Split::kValidation)));
  }
  [[nodiscard]] int64_t resident_bytes() const override { return file_.resident_bytes(); }

 private:
  TokenFile file_;
  int64_t seq_;
  SampleOrder order_;
};

constexpr int64_t kSuccessors = 4;

// P(successor k), k = 0 … min(4, vocabulary) - 1.
std::array<double, kSuccessors> successor_probabilities(int64_t vocabulary) {
  std::array<double, kSuccessors> probabilities{};
  double sum = 0;
  const int64_t count = std::min(kSuccessors, vocabulary);
  for (int64_t k = 0; k < count; ++k) sum += 1.0 / static_cast<double>(k + 1);
  for (int64_t k = 0; k < count; ++k) {
    probabilities[static_cast<size_t>(k)] = 1.0 / static_cast<double>(k + 1) / sum;
  }
  return probabilities;
}

class MarkovSequences final : public TokenSequences {
 public:
  MarkovSequences(int64_t vocabulary, int64_t global_batch, uint64_t seed)
      : vocabulary_(vocabulary),
        global_batch_(global_batch),
        seed_(seed),
        probabilities_(successor_probabilities(vocabulary)) {}

  bool read(Split split, int64_t batch, int64_t index, int64_t skip, int64_t length,
            int32_t* out) const override {
    const auto number = static_cast<uint64_t>(batch * global_batch_ + index);
    const uint64_t purpose = splitmix64(
        rng_purpose(split == Split::kTrain ? "markov:train" : "markov:validation") + number);
    auto token =
        static_cast<int64_t>(rng_bits(seed_, purpose, 0) % static_cast<uint64_t>(vocabulary_));
    for (int64_t i = 0; i < skip + length; ++i) {
      if (i > 0) token = successor(token, rng_uniform(seed_, purpose, static_cast<uint64_t>(i)));
      if (i >= skip) out[i - skip] = static_cast<int32_t>(token);
    }
    return true;
  }
  [[nodiscard]] int64_t num_in_batch(Split /*split*/, int64_t /*batch*/) const override {
    return global_batch_;
  }
  [[nodiscard]] std::optional<int64_t> num_samples(Split /*split*/) const override {
    return std::nullopt;
  }
  [[nodiscard]] std::string description() const override {
    return fmt::format(
        "synthetic Markov chain over {} tokens, entropy rate {:.4f} nats a token "
        "(ln V = {:.4f})",
        format_count(vocabulary_), markov_entropy_rate(vocabulary_),
        std::log(static_cast<double>(vocabulary_)));
  }
  [[nodiscard]] int64_t resident_bytes() const override { return 0; }

 private:
  // Successors of a token are distinct: the first four of a permutation that belongs to it.
  [[nodiscard]] int64_t successor(int64_t token, float draw) const {
    uint64_t k = 0;
    double below = probabilities_[0];
    while (k + 1 < static_cast<uint64_t>(std::min(kSuccessors, vocabulary_)) && draw >= below) {
      below += probabilities_[++k];
    }
    const uint64_t purpose = splitmix64(rng_purpose("markov") + static_cast<uint64_t>(token));
    return static_cast<int64_t>(rng_permute(seed_, purpose, static_cast<uint64_t>(vocabulary_), k));
  }

  int64_t vocabulary_;
  int64_t global_batch_;
  uint64_t seed_;
  std::array<double, kSuccessors> probabilities_;
};

class TokenData final : public DataSource {
 public:
  TokenData(std::unique_ptr<TokenSequences> sequences, const DataSpec& spec,
            const DataOptions& options)
      : sequences_(std::move(sequences)),
        seq_(spec.elements("tokens")),
        global_batch_(spec.global_batch),
        mask_token_(static_cast<int32_t>(spec.vocabulary - 1)),
        masked_(spec.objective == "masked_token"),
        num_masked_(std::max<int64_t>(1, std::llround(0.15 * static_cast<double>(seq_)))),
        seed_(options.seed) {}

  void fill(std::string_view field, Split split, int64_t batch, int64_t first, int64_t count,
            const Operand& out) const override {
    if (out.dtype != DType::kI32 || out.size() != checked_mul(count, seq_)) {
      throw bad_input(fmt::format("load_batch of '{}': {} {}, expected i32 of {} times {}", field,
                                  dtype_name(out.dtype), shape_text(*out.shape), count, seq_));
    }
    for (int64_t i = 0; i < count; ++i) {
      int32_t* row = out.as<int32_t>() + i * seq_;
      if (field == "tokens") {
        fill_tokens(split, batch, first + i, row);
      } else if (field == "targets") {
        fill_targets(split, batch, first + i, row);
      } else if (field == "segments") {
        std::fill_n(row, seq_, 0);
      } else {
        throw bad_input(fmt::format("load_batch: data of tokens has no field '{}'", field));
      }
    }
  }

  [[nodiscard]] int64_t valid_targets(Split split, int64_t batch) const override {
    return sequences_->num_in_batch(split, batch) * (masked_ ? num_masked_ : seq_);
  }
  [[nodiscard]] std::optional<int64_t> num_samples(Split split) const override {
    return sequences_->num_samples(split);
  }
  [[nodiscard]] std::string description() const override { return sequences_->description(); }
  [[nodiscard]] int64_t resident_bytes() const override { return sequences_->resident_bytes(); }

 private:
  void fill_tokens(Split split, int64_t batch, int64_t index, int32_t* row) const {
    if (!sequences_->read(split, batch, index, 0, seq_, row)) {
      std::fill_n(row, seq_, 0);
      return;
    }
    if (!masked_) return;
    for (int64_t t = 0; t < seq_; ++t) {
      if (is_masked(split, batch, index, t)) row[t] = mask_token_;
    }
  }

  void fill_targets(Split split, int64_t batch, int64_t index, int32_t* row) const {
    if (!sequences_->read(split, batch, index, masked_ ? 0 : 1, seq_, row)) {
      std::fill_n(row, seq_, kIgnored);
      return;
    }
    if (!masked_) return;
    for (int64_t t = 0; t < seq_; ++t) {
      if (!is_masked(split, batch, index, t)) row[t] = kIgnored;
    }
  }

  // The positions that a permutation of the sequence, its own for each sample, sends below the
  // number of masks: always equally many, so that the count of targets is known beforehand.
  [[nodiscard]] bool is_masked(Split split, int64_t batch, int64_t index, int64_t position) const {
    const auto number = static_cast<uint64_t>(batch * global_batch_ + index);
    const uint64_t purpose =
        splitmix64(rng_purpose(split == Split::kTrain ? "mask:train" : "mask:validation") + number);
    return rng_permute(seed_, purpose, static_cast<uint64_t>(seq_),
                       static_cast<uint64_t>(position)) < static_cast<uint64_t>(num_masked_);
  }

  std::unique_ptr<TokenSequences> sequences_;
  int64_t seq_;
  int64_t global_batch_;
  int32_t mask_token_;
  bool masked_;
  int64_t num_masked_;
  uint64_t seed_;
};

}  // namespace

std::unique_ptr<TokenSequences> file_sequences(TokenFile file, int64_t seq, int64_t global_batch,
                                               const DataOptions& options) {
  if (file.size() <= seq) {
    throw bad_input(
        fmt::format("{}: {} tokens are too few for a window of {} and the one behind it",
                    file.path(), file.size(), seq),
        "give a longer file, or a smaller --seq");
  }
  return std::make_unique<FileSequences>(std::move(file), seq, global_batch, options);
}

std::unique_ptr<TokenSequences> markov_sequences(int64_t vocabulary, int64_t global_batch,
                                                 uint64_t seed) {
  return std::make_unique<MarkovSequences>(vocabulary, global_batch, seed);
}

double markov_entropy_rate(int64_t vocabulary) {
  double entropy = 0;
  for (const double p : successor_probabilities(vocabulary)) {
    if (p > 0) entropy -= p * std::log(p);
  }
  return entropy;
}

std::unique_ptr<DataSource> token_data(std::unique_ptr<TokenSequences> sequences,
                                       const DataSpec& spec, const DataOptions& options) {
  return std::make_unique<TokenData>(std::move(sequences), spec, options);
}

}  // namespace plimsoll
