#include "costmodel/noise_model.h"

#include "tests/costmodel/expect_error.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace plimsoll {
namespace {

RC_GTEST_PROP(NoiseModel, StepsAndSamplesLieOnTheHyperbola, ()) {
  const NoiseModel model{static_cast<double>(*rc::gen::inRange(1, 1'000'000)),
                         static_cast<double>(*rc::gen::inRange(1, 1'000'000))};
  const double batch = *rc::gen::inRange(1, 1'000'000);
  const double product =
      (model.steps(batch) / model.min_steps - 1) * (model.samples(batch) / model.min_samples() - 1);
  RC_ASSERT(std::abs(product - 1) < 1e-6);
  RC_ASSERT(std::abs(model.efficiency(batch) * model.samples(batch) / model.min_samples() - 1) <
            1e-12);
}

TEST(NoiseModel, TheCriticalBatchCostsTwiceOfEach) {
  const NoiseModel model{1000, 256};
  EXPECT_DOUBLE_EQ(model.steps(256), 2000);
  EXPECT_DOUBLE_EQ(model.samples(256), 2 * model.min_samples());
}

RC_GTEST_PROP(NoiseModel, FindsTheParametersOfExactData, ()) {
  const NoiseModel truth{static_cast<double>(*rc::gen::inRange(10, 100'000)),
                         static_cast<double>(*rc::gen::inRange(20, 20'000))};
  std::vector<StepsToTarget> runs;
  for (double batch = 8; batch <= 65536; batch *= 2) runs.push_back({batch, truth.steps(batch)});
  const NoiseModel fit = fit_noise_model(runs);
  RC_ASSERT(std::abs(fit.min_steps / truth.min_steps - 1) < 1e-6);
  RC_ASSERT(std::abs(fit.critical_batch / truth.critical_batch - 1) < 1e-6);
}

TEST(NoiseModel, RefusesDataThatCannotBeFitted) {
  const auto fails = [](std::vector<StepsToTarget> runs, const std::string& message) {
    expect_error([&] { (void)fit_noise_model(runs); }, ExitCode::kBadInput, message);
  };
  fails({}, "at least two batch sizes");
  fails({{8, 100}, {8, 110}}, "at least two batch sizes");
  fails({{8, 100}, {0, 50}}, "must be positive");
  fails({{8, 100}, {16, -50}}, "must be positive");
  fails({{8, 100}, {16, std::nan("")}}, "must be positive");
  fails({{8, 100}, {INFINITY, 50}}, "must be positive");
  fails({{8, 100}, {16, 100}, {32, 100}, {64, 100}}, "do not fall");
  fails({{8, 100}, {16, 200}, {32, 400}}, "do not fall");
  fails({{8, 800}, {16, 400}, {32, 200}, {64, 100}}, "in full proportion");
}

RC_GTEST_PROP(FastestBatch, IsTheMinimumOfTheTimeToTarget, ()) {
  const double critical = *rc::gen::inRange(1, 100'000);
  const double fixed = *rc::gen::inRange(1, 1000) * 1e-3;
  const double sample = *rc::gen::inRange(1, 1000) * 1e-6;
  const NoiseModel model{1000, critical};
  const auto time = [&](double batch) { return model.steps(batch) * (fixed + batch * sample); };
  const double best = fastest_batch(critical, fixed, sample);
  RC_ASSERT(time(best) <= time(best * 1.001));
  RC_ASSERT(time(best) <= time(best * 0.999));
  const double closed_form =
      model.min_steps * std::pow(std::sqrt(fixed) + std::sqrt(sample * critical), 2);
  RC_ASSERT(std::abs(time(best) / closed_form - 1) < 1e-9);
}

// The rows of a CSV file without comments and header.
std::vector<std::vector<double>> read_rows(const std::filesystem::path& path) {
  std::vector<std::vector<double>> rows;
  std::ifstream file(path);
  std::string line;
  bool header = true;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    if (std::exchange(header, false)) continue;
    std::vector<double> row;
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) row.push_back(std::stod(cell));
    rows.push_back(row);
  }
  return rows;
}

// Zhang et al. 2024 publish their runs and the least-squares fits of them for five models.
TEST(NoiseModel, ReproducesThePublishedFits) {
  const std::filesystem::path folder =
      std::filesystem::path(PLIMSOLL_SHARED_DATA) / "benchmarks" / "noise";
  if (!std::filesystem::exists(folder / "zhang2024_steps_to_target.csv")) {
    GTEST_SKIP() << "no benchmark data in " << folder;
  }
  std::map<double, std::vector<StepsToTarget>> runs;  // by model
  for (const auto& row : read_rows(folder / "zhang2024_steps_to_target.csv")) {
    runs[row[0]].push_back({row[2], row[3]});
  }
  const auto published = read_rows(folder / "zhang2024_published_fits.csv");
  ASSERT_EQ(published.size(), 5U);
  for (const auto& row : published) {
    SCOPED_TRACE(row[0]);
    ASSERT_EQ(runs[row[0]].size(), 9U);
    const NoiseModel fit = fit_noise_model(runs[row[0]]);
    EXPECT_NEAR(fit.min_steps / row[1], 1, 1e-5);
    EXPECT_NEAR(fit.min_samples() / row[2], 1, 1e-5);
    // Their critical batch: 20% more samples than at 256 sequences.
    EXPECT_NEAR((0.2 * fit.critical_batch + 1.2 * 256) / row[3], 1, 1e-4);
  }
}

}  // namespace
}  // namespace plimsoll
