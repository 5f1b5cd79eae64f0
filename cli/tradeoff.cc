// plimsoll tradeoff: batch size against memory, step time, steps and time to the target.
#include "base/error.h"
#include "base/files.h"
#include "base/units.h"
#include "cli/context.h"
#include "cli/job_options.h"
#include "costmodel/noise_model.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <memory>
#include <sstream>

namespace plimsoll::cli {

namespace {

struct TradeoffArguments {
  std::string model, cluster, noise_scale, csv, json;
  JobArguments job;
};

// The mean of the noise_scale column of a run's metrics.csv over its second half, when the estimate
// has settled.
double noise_from_metrics(const std::string& path) {
  std::istringstream lines(read_file(path));
  std::string line;
  std::getline(lines, line);
  const auto split = [](const std::string& text) {
    std::vector<std::string> cells;
    std::istringstream stream(text);
    for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
    return cells;
  };
  const std::vector<std::string> head = split(line);
  const auto column = std::find(head.begin(), head.end(), "noise_scale") - head.begin();
  if (column == static_cast<std::ptrdiff_t>(head.size())) {
    throw bad_input(path + ": has no column noise_scale", "give a metrics.csv of `plimsoll train`");
  }
  std::vector<double> values;
  while (std::getline(lines, line)) {
    const std::vector<std::string> cells = split(line);
    if (static_cast<size_t>(column) >= cells.size()) continue;
    const std::string& cell = cells[static_cast<size_t>(column)];
    double value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error == std::errc{} && std::isfinite(value) && value > 0) values.push_back(value);
  }
  if (values.empty()) {
    throw bad_input(path + ": no step has a noise scale",
                    "train with two or more data-parallel ranks");
  }
  double sum = 0;
  const size_t from = values.size() / 2;
  for (size_t i = from; i < values.size(); ++i) sum += values[i];
  return sum / static_cast<double>(values.size() - from);
}

double noise_scale(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size()) {
    if (!(value > 0) || !std::isfinite(value)) {
      throw bad_input(fmt::format("--noise-scale {} is not positive", text));
    }
    return value;
  }
  return noise_from_metrics(text);
}

struct Row {
  int64_t batch = 0;
  std::optional<Plan> plan;
  double steps = 0, seconds = 0, samples = 0;
};

std::vector<Row> make_rows(Request request, const NoiseModel& noise) {
  std::vector<Row> rows;
  const int64_t devices = request.cluster.num_devices();
  for (int64_t batch = devices; rows.size() < 14; batch = checked_mul(batch, 2)) {
    request.job.global_batch = batch;
    Row row;
    row.batch = batch;
    row.plan = search_with_progress(request, false).best;
    row.steps = std::ceil(noise.steps(static_cast<double>(batch)));
    row.samples = row.steps * static_cast<double>(batch);
    if (row.plan) row.seconds = row.steps * row.plan->predicted.step_seconds;
    rows.push_back(std::move(row));
    if (static_cast<double>(batch) > 16 * noise.critical_batch) break;
  }
  return rows;
}

std::string duration(double seconds) {
  if (seconds < 600) return format_seconds(seconds);
  if (seconds < 2 * 86400) return fmt::format("{:.1f} h", seconds / 3600);
  return fmt::format("{:.1f} days", seconds / 86400);
}

void print_rows(const Request& request, const NoiseModel& noise, const std::vector<Row>& rows) {
  fmt::print("       Model  {} on {}\n", request.model.name, request.cluster.text);
  fmt::print(
      "       Noise  critical batch {:.0f} · at least {:.0f} steps · at least {:.0f} samples\n\n",
      noise.critical_batch, noise.min_steps, noise.min_samples());
  fmt::print("{:>9} {:>11} {:>10} {:>10} {:>11} {:>10}  {}\n", "batch", "memory", "step", "steps",
             "time", "samples", "plan");
  const Row* fastest = nullptr;
  for (const Row& row : rows) {
    if (row.plan && (fastest == nullptr || row.seconds < fastest->seconds)) fastest = &row;
  }
  for (const Row& row : rows) {
    if (!row.plan) {
      fmt::print("{:>9} {:>11}\n", row.batch, "does not fit");
      continue;
    }
    fmt::print("{:>9} {:>11} {:>10} {:>10.0f} {:>11} {:>10.3g}  {}{}\n", row.batch,
               format_bytes(row.plan->predicted.peak_bytes),
               format_seconds(row.plan->predicted.step_seconds), row.steps, duration(row.seconds),
               row.samples, row.plan->strategy.text(row.plan->job),
               &row == fastest ? "  <- soonest" : "");
  }
}

void run(const TradeoffArguments& a, Context& context) {
  const Request request = resolve(a.model, a.cluster, a.job);
  NoiseModel noise;
  noise.critical_batch = noise_scale(a.noise_scale);
  const int64_t seq = std::max<int64_t>(1, request.job.seq);
  // What a small batch would need: 20 tokens a parameter (Hoffmann et al. 2022) unless said.
  const int64_t tokens = a.job.tokens.value_or(checked_mul(20, count_parameters(request.model)));
  noise.min_steps = static_cast<double>(tokens) / static_cast<double>(seq) / noise.critical_batch;
  const std::vector<Row> rows = make_rows(request, noise);
  if (a.json != "-") print_rows(request, noise, rows);
  const bool any =
      std::any_of(rows.begin(), rows.end(), [](const Row& r) { return r.plan.has_value(); });
  if (!any) context.exit_code = static_cast<int>(ExitCode::kInfeasible);
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  std::string csv = "global_batch,fits,peak_bytes,step_seconds,steps,seconds,samples,plan\n";
  for (const Row& row : rows) {
    const Prediction p = row.plan ? row.plan->predicted : Prediction{};
    const std::string text = row.plan ? row.plan->strategy.text(row.plan->job) : "";
    csv += fmt::format("{},{},{},{},{},{},{},{}\n", row.batch, row.plan ? 1 : 0, p.peak_bytes,
                       p.step_seconds, row.steps, row.seconds, row.samples, text);
    json.push_back({{"global_batch", row.batch},
                    {"fits", row.plan.has_value()},
                    {"peak_bytes", p.peak_bytes},
                    {"step_seconds", p.step_seconds},
                    {"steps", row.steps},
                    {"seconds", row.seconds},
                    {"samples", row.samples},
                    {"plan", text}});
  }
  if (!a.csv.empty()) write_file(a.csv, csv);
  if (!a.json.empty()) {
    write_file(a.json, nlohmann::ordered_json{{"critical_batch", noise.critical_batch},
                                              {"min_steps", noise.min_steps},
                                              {"min_samples", noise.min_samples()},
                                              {"rows", json}}
                               .dump(2) +
                           "\n");
  }
}

}  // namespace

void add_tradeoff(CLI::App& app, Context& context) {
  CLI::App* command =
      app.add_subcommand("tradeoff", "batch size against memory, step time and time to the target");
  auto a = std::make_shared<TradeoffArguments>();
  command->add_option("MODEL", a->model, "a built-in name or a Hugging Face config.json")
      ->required();
  command->add_option("CLUSTER", a->cluster, "e.g. 8xa100-80gb")->required();
  command
      ->add_option("--noise-scale", a->noise_scale,
                   "gradient noise scale in samples, or a metrics.csv of a run")
      ->required();
  add_job_options(*command, a->job);
  command->add_option("--csv", a->csv, "write the table");
  command->add_option("--json", a->json, "write the table, - for stdout alone");
  command->footer(
      "Example:\n  plimsoll tradeoff gpt2 8xa100-80gb --noise-scale 500 --tokens 2500000000");
  command->callback([a, &context] { run(*a, context); });
}

}  // namespace plimsoll::cli
