// metrics.csv: one line a step, on disk before the next step starts.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace plimsoll {

struct StepMetrics {
  int64_t step = 0;    // 0-based; the loss is the one before this step's update
  int64_t tokens = 0;  // seen so far, this step included; samples for models without sequences
  float loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;
  std::optional<double> noise_scale;  // in samples
  double step_seconds = 0;
  double tokens_per_second = 0;
  std::optional<double> mfu;
  std::optional<float> validation_loss;       // behind this step's update
  std::optional<double> validation_accuracy;  // rightly classified part, of classifiers
};

// Floats are printed so that they read back to the same bits.
[[nodiscard]] std::string metrics_header();
[[nodiscard]] std::string metrics_row(const StepMetrics& metrics);

class MetricsWriter {
 public:
  // Starts the file anew, or keeps the rows of an existing one before step `first_step`. Throws
  // Error (exit 4) when the file cannot be written.
  MetricsWriter(std::string path, int64_t first_step);
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  // Appends and flushes. Throws Error (exit 4) on a full disk.
  void append(const StepMetrics& metrics);

 private:
  [[noreturn]] void fail(const char* action) const;

  std::string path_;
  std::FILE* file_ = nullptr;
};

}  // namespace plimsoll
