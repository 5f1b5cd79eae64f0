#include "executor/row_data.h"

#include "base/error.h"
#include "base/files.h"
#include "base/rng.h"
#include "base/units.h"
#include "executor/sample_order.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace plimsoll {

namespace {

// One sample's number in the data set, or none past the validation set's end.
using SampleNumber = std::optional<int64_t>;

// Where rows come from: element i of a sample's inputs, and of its targets.
class Rows {
 public:
  virtual ~Rows() = default;
  [[nodiscard]] virtual SampleNumber sample(Split split, int64_t batch, int64_t index) const = 0;
  [[nodiscard]] virtual double input(int64_t sample, int64_t i) const = 0;
  [[nodiscard]] virtual double target(int64_t sample, int64_t i) const = 0;
  [[nodiscard]] virtual int64_t num_in_batch(Split split, int64_t batch) const = 0;
  [[nodiscard]] virtual std::optional<int64_t> num_samples(Split split) const = 0;
  [[nodiscard]] virtual std::string description() const = 0;
  [[nodiscard]] virtual int64_t resident_bytes() const { return 0; }
};

class TableRows final : public Rows {
 public:
  TableRows(NumberTable table, int64_t num_inputs, int64_t global_batch, bool wraps,
            const DataOptions& options, std::string path)
      : table_(std::move(table)),
        num_inputs_(num_inputs),
        wraps_(wraps),
        order_(table_.rows, global_batch, options, path),
        path_(std::move(path)),
        global_batch_(global_batch) {}

  [[nodiscard]] SampleNumber sample(Split split, int64_t batch, int64_t index) const override {
    const SampleNumber found = order_.sample(split, batch, index);
    const int64_t validation = order_.num_samples(Split::kValidation);
    if (found || !wraps_ || validation == 0) return found;
    return order_.num_samples(Split::kTrain) + (batch * global_batch_ + index) % validation;
  }
  [[nodiscard]] double input(int64_t sample, int64_t i) const override {
    return table_.values[static_cast<size_t>(sample * table_.columns + i)];
  }
  [[nodiscard]] double target(int64_t sample, int64_t i) const override {
    return input(sample, num_inputs_ + i);
  }
  [[nodiscard]] int64_t num_in_batch(Split split, int64_t batch) const override {
    if (wraps_ && order_.num_samples(split) > 0) return global_batch_;
    return order_.num_in_batch(split, batch);
  }
  [[nodiscard]] std::optional<int64_t> num_samples(Split split) const override {
    return order_.num_samples(split);
  }
  [[nodiscard]] std::string description() const override {
    return fmt::format("{}: {} rows to train, {} to validate", path_,
                       format_count(order_.num_samples(Split::kTrain)),
                       format_count(order_.num_samples(Split::kValidation)));
  }
  [[nodiscard]] int64_t resident_bytes() const override {
    return static_cast<int64_t>(table_.values.capacity() * sizeof(float));
  }

 private:
  NumberTable table_;
  int64_t num_inputs_;
  bool wraps_;
  SampleOrder order_;
  std::string path_;
  int64_t global_batch_;
};

// Endless rows: training samples have even numbers, validation samples odd ones.
class SyntheticRows : public Rows {
 public:
  SyntheticRows(int64_t num_inputs, int64_t global_batch, uint64_t seed)
      : num_inputs_(num_inputs), global_batch_(global_batch), seed_(seed) {}

  [[nodiscard]] SampleNumber sample(Split split, int64_t batch, int64_t index) const override {
    return 2 * (batch * global_batch_ + index) + (split == Split::kTrain ? 0 : 1);
  }
  [[nodiscard]] int64_t num_in_batch(Split /*split*/, int64_t /*batch*/) const override {
    return global_batch_;
  }
  [[nodiscard]] std::optional<int64_t> num_samples(Split /*split*/) const override {
    return std::nullopt;
  }

 protected:
  [[nodiscard]] double normal(std::string_view purpose, int64_t index) const {
    return rng_normal(seed_, rng_purpose(purpose), static_cast<uint64_t>(index));
  }

  int64_t num_inputs_;
  int64_t global_batch_;
  uint64_t seed_;
};

class SyntheticClasses final : public SyntheticRows {
 public:
  SyntheticClasses(int64_t num_inputs, int64_t global_batch, uint64_t seed, int64_t classes)
      : SyntheticRows(num_inputs, global_batch, seed), classes_(classes) {}

  [[nodiscard]] double input(int64_t sample, int64_t i) const override {
    const auto label = static_cast<int64_t>(target(sample, 0));
    return normal("picture", label * num_inputs_ + i) + normal("pixel", sample * num_inputs_ + i);
  }
  [[nodiscard]] double target(int64_t sample, int64_t /*i*/) const override {
    return static_cast<double>(
        rng_bits(seed_, rng_purpose("class"), static_cast<uint64_t>(sample)) %
        static_cast<uint64_t>(classes_));
  }
  [[nodiscard]] std::string description() const override {
    return fmt::format("synthetic images of {} classes, noise of the strength of the picture",
                       classes_);
  }

 private:
  int64_t classes_;
};

class SyntheticRegression final : public SyntheticRows {
 public:
  using SyntheticRows::SyntheticRows;

  [[nodiscard]] double input(int64_t sample, int64_t i) const override {
    return normal("feature", sample * num_inputs_ + i);
  }
  [[nodiscard]] double target(int64_t sample, int64_t i) const override {
    double sum = 0;
    for (int64_t k = 0; k < num_inputs_; ++k) {
      sum += normal("map", i * num_inputs_ + k) * input(sample, k);
    }
    const int64_t key = splitmix_key(sample, i);
    return sum / std::sqrt(static_cast<double>(num_inputs_)) + 0.1 * normal("noise", key);
  }
  [[nodiscard]] std::string description() const override {
    return "synthetic linear regression, noise of variance 0.01";
  }

 private:
  static int64_t splitmix_key(int64_t sample, int64_t i) {
    return static_cast<int64_t>(splitmix64(static_cast<uint64_t>(sample)) +
                                static_cast<uint64_t>(i));
  }
};

class RowData final : public DataSource {
 public:
  RowData(std::unique_ptr<Rows> rows, int64_t num_inputs, int64_t num_targets, bool classes)
      : rows_(std::move(rows)),
        num_inputs_(num_inputs),
        num_targets_(num_targets),
        classes_(classes) {}

  void fill(std::string_view field, Split split, int64_t batch, int64_t first, int64_t count,
            const Operand& out) const override {
    const bool inputs = field == "images" || field == "features";
    if (!inputs && field != (classes_ ? "labels" : "values")) {
      throw bad_input(fmt::format("load_batch: the data set has no field '{}'", field));
    }
    if (out.size() != checked_mul(count, inputs ? num_inputs_ : num_targets_)) {
      throw bad_input(fmt::format("load_batch of '{}': {} for {} samples", field,
                                  shape_text(*out.shape), count));
    }
    for (int64_t i = 0; i < count; ++i) {
      const SampleNumber sample = rows_->sample(split, batch, first + i);
      if (inputs) {
        write(out, i * num_inputs_, num_inputs_,
              [&](int64_t k) { return sample ? rows_->input(*sample, k) : 0.0; });
      } else {
        write(out, i * num_targets_, num_targets_,
              [&](int64_t k) { return sample ? rows_->target(*sample, k) : -100.0; });
      }
    }
  }

  [[nodiscard]] int64_t valid_targets(Split split, int64_t batch) const override {
    return rows_->num_in_batch(split, batch) * num_targets_;
  }
  [[nodiscard]] std::optional<int64_t> num_samples(Split split) const override {
    return rows_->num_samples(split);
  }
  [[nodiscard]] std::string description() const override { return rows_->description(); }
  [[nodiscard]] int64_t resident_bytes() const override { return rows_->resident_bytes(); }

 private:
  template <typename Value>
  static void write(const Operand& out, int64_t first, int64_t count, Value value) {
    for (int64_t k = 0; k < count; ++k) {
      if (out.dtype == DType::kF32) {
        out.as<float>()[first + k] = static_cast<float>(value(k));
      } else if (out.dtype == DType::kF64) {
        out.as<double>()[first + k] = value(k);
      } else if (out.dtype == DType::kI32) {
        out.as<int32_t>()[first + k] = static_cast<int32_t>(value(k));
      } else {
        throw bad_input(fmt::format("load_batch into {}", dtype_name(out.dtype)));
      }
    }
  }

  std::unique_ptr<Rows> rows_;
  int64_t num_inputs_;
  int64_t num_targets_;
  bool classes_;
};

void require_columns(const NumberTable& table, const std::string& path, int64_t inputs,
                     int64_t targets) {
  if (table.columns != checked_add(inputs, targets)) {
    throw bad_input(fmt::format("{}: rows of {} numbers, but the model reads {} inputs and {} {}",
                                path, table.columns, inputs, targets,
                                targets == 1 ? "target" : "targets"));
  }
}

// Labels are whole numbers below `classes`; inputs are brought to at most 1 in absolute value.
void prepare_classes(NumberTable& table, const std::string& path, int64_t classes) {
  float largest = 0;
  for (int64_t row = 0; row < table.rows; ++row) {
    float* values = table.values.data() + row * table.columns;
    const float label = values[table.columns - 1];
    if (!(label >= 0 && label < static_cast<float>(classes)) || label != std::floor(label)) {
      throw bad_input(fmt::format("{}: row {}, column {}: {} is not a class below {}", path,
                                  row + 1, table.columns, label, classes));
    }
    for (int64_t i = 0; i + 1 < table.columns; ++i)
      largest = std::max(largest, std::abs(values[i]));
  }
  if (largest == 0) return;
  for (int64_t row = 0; row < table.rows; ++row) {
    float* values = table.values.data() + row * table.columns;
    for (int64_t i = 0; i + 1 < table.columns; ++i) values[i] /= largest;
  }
}

// Appends the numbers of a line; returns how many.
int64_t parse_line(std::string_view line, const std::string& path, int64_t number,
                   std::vector<float>& values) {
  int64_t columns = 0;
  const char* at = line.data();
  const char* end = line.data() + line.size();
  while (true) {
    ++columns;
    while (at != end && *at == ' ') ++at;
    float value = 0;
    const auto [stop, error] = std::from_chars(at, end, value);
    if (error != std::errc{} || !std::isfinite(value)) {
      throw bad_input(fmt::format("{}: line {}, column {}: not a number", path, number, columns));
    }
    values.push_back(value);
    at = stop;
    while (at != end && *at == ' ') ++at;
    if (at == end) return columns;
    if (*at != ',') {
      throw bad_input(fmt::format("{}: line {}, column {}: expected a comma behind the number",
                                  path, number, columns));
    }
    ++at;
  }
}

bool starts_with_number(std::string_view line) {
  const size_t first = line.find_first_not_of(' ');
  return first != std::string_view::npos &&
         std::string_view("0123456789+-.").find(line[first]) != std::string_view::npos;
}

}  // namespace

NumberTable read_number_table(const std::string& path) {
  const std::string text = read_file(path);
  NumberTable table;
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t newline = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, newline - at);
    at = newline + 1;
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() || (number == 1 && !starts_with_number(line))) continue;
    const int64_t columns = parse_line(line, path, number, table.values);
    if (table.rows > 0 && columns != table.columns) {
      throw bad_input(fmt::format("{}: line {}: {} numbers, the lines before have {}", path, number,
                                  columns, table.columns));
    }
    table.columns = columns;
    ++table.rows;
  }
  if (table.rows == 0) throw bad_input(fmt::format("{}: no rows of numbers", path));
  table.values.shrink_to_fit();
  return table;
}

std::unique_ptr<DataSource> open_classes(const std::string& path, const DataSpec& spec,
                                         const DataOptions& options) {
  const int64_t inputs = spec.elements("images") + spec.elements("features");
  if (inputs < 1 || spec.elements("labels") != 1 || spec.vocabulary < 1) {
    throw bad_input(fmt::format("a program of classes with {} inputs, {} labels and {} classes",
                                inputs, spec.elements("labels"), spec.vocabulary));
  }
  std::unique_ptr<Rows> rows;
  if (path.empty()) {
    rows = std::make_unique<SyntheticClasses>(inputs, spec.global_batch, options.seed,
                                              spec.vocabulary);
  } else {
    NumberTable table = read_number_table(path);
    require_columns(table, path, inputs, 1);
    prepare_classes(table, path, spec.vocabulary);
    rows = std::make_unique<TableRows>(std::move(table), inputs, spec.global_batch, false, options,
                                       path);
  }
  return std::make_unique<RowData>(std::move(rows), inputs, 1, true);
}

std::unique_ptr<DataSource> open_regression(const std::string& path, const DataSpec& spec,
                                            const DataOptions& options) {
  const int64_t inputs = spec.elements("features");
  const int64_t targets = spec.elements("values");
  std::unique_ptr<Rows> rows;
  if (path.empty()) {
    rows = std::make_unique<SyntheticRegression>(inputs, spec.global_batch, options.seed);
  } else {
    NumberTable table = read_number_table(path);
    require_columns(table, path, inputs, targets);
    rows = std::make_unique<TableRows>(std::move(table), inputs, spec.global_batch, true, options,
                                       path);
  }
  return std::make_unique<RowData>(std::move(rows), inputs, targets, false);
}

}  // namespace plimsoll
