// Data sets of token sequences: windows of a file, or a synthetic Markov chain.
#pragma once

#include "executor/data.h"
#include "executor/sample_order.h"
#include "executor/token_file.h"

#include <cstdint>
#include <memory>
#include <string>

namespace plimsoll {

// Where sequences come from. Sequence `index` of global batch `batch` has T + 1 tokens.
class TokenSequences {
 public:
  virtual ~TokenSequences() = default;
  // Writes tokens [skip, skip + length) of the sequence; false when the split has no such sequence.
  virtual bool read(Split split, int64_t batch, int64_t index, int64_t skip, int64_t length,
                    int32_t* out) const = 0;
  [[nodiscard]] virtual int64_t num_in_batch(Split split, int64_t batch) const = 0;
  [[nodiscard]] virtual std::optional<int64_t> num_samples(Split split) const = 0;
  [[nodiscard]] virtual std::string description() const = 0;
  [[nodiscard]] virtual int64_t resident_bytes() const = 0;
};

// Non-overlapping windows of `seq` tokens, each read with the token behind it. Throws Error (exit
// 2) when the file is too short.
[[nodiscard]] std::unique_ptr<TokenSequences> file_sequences(TokenFile file, int64_t seq,
                                                             int64_t global_batch,
                                                             const DataOptions& options);

// A chain over the vocabulary in which every token has at most four successors with probabilities
// in the ratio 1 : 1/2 : 1/3 : 1/4 (Zipf), drawn by (seed, split, number of the sequence).
[[nodiscard]] std::unique_ptr<TokenSequences> markov_sequences(int64_t vocabulary,
                                                               int64_t global_batch, uint64_t seed);

// Nats a token of that chain: what no model's loss can fall below.
[[nodiscard]] double markov_entropy_rate(int64_t vocabulary);

// The fields of language models over sequences. Next token: targets are the tokens one further on.
// Masked token: in each sequence round(0.15 T) positions, at least one, are replaced by the last
// token of the vocabulary and are the only targets.
[[nodiscard]] std::unique_ptr<DataSource> token_data(std::unique_ptr<TokenSequences> sequences,
                                                     const DataSpec& spec,
                                                     const DataOptions& options);

}  // namespace plimsoll
