#include "executor/telemetry.h"

#include "base/error.h"
#include "base/files.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <string_view>

namespace plimsoll {

namespace {

template <typename T>
std::string cell(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "";
}

// The complete lines of `text` whose step is below `first_step`, heading included. A line that was
// cut off by a crash, and everything behind it, goes.
std::string rows_before(std::string_view text, int64_t first_step) {
  std::string kept = metrics_header();
  size_t at = text.find('\n');
  while (at != std::string_view::npos) {
    const size_t begin = at + 1;
    at = text.find('\n', begin);
    if (at == std::string_view::npos) break;
    const std::string_view line = text.substr(begin, at - begin);
    int64_t step = 0;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), step);
    if (error != std::errc{} || stop == line.data() + line.size() || *stop != ',') break;
    if (step >= first_step) break;
    kept += line;
    kept += '\n';
  }
  return kept;
}

}  // namespace

std::string metrics_header() {
  return "step,tokens,loss,learning_rate,gradient_norm,noise_scale,step_seconds,tokens_per_second,"
         "mfu,validation_loss,validation_accuracy\n";
}

std::string metrics_row(const StepMetrics& m) {
  return fmt::format("{},{},{},{},{},{},{:.6g},{:.6g},{},{},{}\n", m.step, m.tokens, m.loss,
                     m.learning_rate, m.gradient_norm, cell(m.noise_scale), m.step_seconds,
                     m.tokens_per_second, m.mfu ? fmt::format("{:.6g}", *m.mfu) : "",
                     cell(m.validation_loss), cell(m.validation_accuracy));
}

MetricsWriter::MetricsWriter(std::string path, int64_t first_step) : path_(std::move(path)) {
  std::string kept = metrics_header();
  if (first_step > 0 && std::filesystem::exists(path_)) {
    kept = rows_before(read_file(path_), first_step);
  }
  write_file(path_, kept);
  file_ = std::fopen(path_.c_str(), "ab");
  if (file_ == nullptr) fail("open");
}

MetricsWriter::~MetricsWriter() {
  if (file_ != nullptr) std::fclose(file_);
}

void MetricsWriter::append(const StepMetrics& metrics) {
  const std::string row = metrics_row(metrics);
  if (std::fwrite(row.data(), 1, row.size(), file_) != row.size() || std::fflush(file_) != 0) {
    fail("write");
  }
}

void MetricsWriter::fail(const char* action) const {
  throw run_failed(fmt::format("cannot {} {}: {}", action, path_, std::strerror(errno)),
                   "check that the folder is writable and has free space");
}

}  // namespace plimsoll
