// Data sets: what a global batch holds, as a function of (split, batch number, index in the batch).
//
// Nothing here has state that changes while training, so any rank may ask for any sample in any
// order and a restart asks for what it needs. The last fraction of a file is the validation set;
// its samples never appear in training.
#pragma once

#include "executor/bind.h"
#include "program/program.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

enum class Split : uint8_t { kTrain, kValidation };
[[nodiscard]] std::string_view split_name(Split split);
// Throws Error (exit 2) for a name that is neither "train" nor "validation".
[[nodiscard]] Split parse_split(std::string_view name);

class DataSource {
 public:
  virtual ~DataSource() = default;

  // Writes `field` of samples [first, first + count) of global batch `batch` to `out`, whose
  // elements are shared out evenly to the samples. Thread-safe. Throws Error (exit 2) for a field
  // that the data set does not have.
  virtual void fill(std::string_view field, Split split, int64_t batch, int64_t first,
                    int64_t count, const Operand& out) const = 0;

  // Targets that count towards the loss in that global batch, all ranks together: what the sum of
  // losses is divided by.
  [[nodiscard]] virtual int64_t valid_targets(Split split, int64_t batch) const = 0;

  // Samples of a split; empty when there is no end of them.
  [[nodiscard]] virtual std::optional<int64_t> num_samples(Split split) const = 0;

  // One line for people: kind, sizes, entropy rate of what is synthetic.
  [[nodiscard]] virtual std::string description() const = 0;

  // Heap bytes that the data set holds.
  [[nodiscard]] virtual int64_t resident_bytes() const = 0;
};

// What a program wants to read: read off its header and its load_batch instructions.
struct DataSpec {
  std::string objective;  // "next_token", "masked_token", "classes", "regression"
  int64_t global_batch = 1;
  int64_t vocabulary = 0;                            // tokens, or classes
  std::map<std::string, Shape, std::less<>> fields;  // shape of one sample

  // Elements of a sample's field; 0 when the program does not read it.
  [[nodiscard]] int64_t elements(std::string_view field) const;
};

struct DataOptions {
  uint64_t seed = 0;
  double validation_fraction = 0.1;  // of windows or rows; 0: none
  bool shuffle = true;               // false: in the file's order, epoch after epoch
};

// Throws Error (exit 2) when the program reads fields whose shapes do not go together.
[[nodiscard]] DataSpec describe_data(const StepProgram& program);
// Of all ranks: stages of a pipeline read different fields.
[[nodiscard]] DataSpec describe_data(std::span<const StepProgram> programs);

// Opens `path` (text as bytes, .bin of tokens, .csv of images or values), or makes the synthetic
// data of the objective when path is empty. Throws Error (exit 2) naming file and offset or line.
[[nodiscard]] std::unique_ptr<DataSource> open_data(const std::string& path, const DataSpec& spec,
                                                    const DataOptions& options);

}  // namespace plimsoll
