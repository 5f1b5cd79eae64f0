#include "reports/plan_report.h"

#include "base/json.h"
#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll {

namespace {

std::string repeat(const char* glyph, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += glyph;
  return text;
}

std::string bar(int64_t bytes, int64_t full_bytes, const ReportStyle& style) {
  constexpr int64_t kWidth = 28;
  const double part =
      static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(1, full_bytes));
  auto cells = static_cast<int64_t>(part * kWidth + 0.5);
  if (bytes > 0) cells = std::max<int64_t>(1, cells);
  return repeat(style.unicode ? "█" : "#", std::min(cells, kWidth));
}

std::string head(const ModelSpec& model, const Cluster& cluster, const Job& job,
                 const SearchCounts& counts, int64_t limit) {
  std::string text;
  text += fmt::format("       Model  {} · {} parameters · {} layers\n", model.name,
                      format_count(count_parameters(model)), model.layers);
  text += fmt::format("     Cluster  {} · {} device{} · {} each\n", cluster.text,
                      format_count(cluster.num_devices()), cluster.num_devices() == 1 ? "" : "s",
                      format_bytes(limit));
  text += fmt::format("         Job  {}{} {} a step · {} · {}\n", format_count(job.global_batch),
                      job.seq > 0 ? fmt::format(" × {}", format_count(job.seq)) : "",
                      job.seq > 0 ? "tokens" : "samples", dtype_name(job.precision),
                      optimizer_name(job.optimizer));
  text += fmt::format("    Searched  {} strategies · {} evaluated · {} pruned\n",
                      format_count(counts.covered), format_count(counts.evaluated),
                      format_count(counts.covered - counts.evaluated));
  return text;
}

// One line a category at the peak, then packing, what lies outside the arena, and what is free.
std::string anatomy(const Prediction& p, int64_t limit, const ReportStyle& style) {
  std::string text;
  const int64_t scale = std::max(limit, p.peak_bytes);
  const auto row = [&](std::string_view name, int64_t bytes) {
    if (bytes <= 0) return;
    const std::string blocks = bar(bytes, scale, style);
    const auto cells = style.unicode ? static_cast<int64_t>(blocks.size()) / 3
                                     : static_cast<int64_t>(blocks.size());
    text += fmt::format("    {:<15}{}{}{:>12}\n", name, blocks,
                        std::string(static_cast<size_t>(29 - cells), ' '), format_bytes(bytes));
  };
  for (int i = 0; i < kNumCategories; ++i) {
    row(category_name(static_cast<Category>(i)), p.by_category[static_cast<size_t>(i)]);
  }
  row("packing", p.arena_bytes - p.live_peak_bytes);
  row("outside arena", p.peak_bytes - p.arena_bytes);
  row("free", limit - p.peak_bytes);
  return text;
}

std::string percent(double part) { return fmt::format("{:.0f} %", part * 100); }

std::string time_split(const Prediction& p) {
  double total = 0;
  for (const double seconds : p.pass_seconds) total += seconds;
  if (total <= 0) return "";
  std::string text;
  for (int i = 0; i < kNumPasses; ++i) {
    const double seconds = p.pass_seconds[static_cast<size_t>(i)];
    if (seconds / total < 0.005) continue;
    if (!text.empty()) text += " · ";
    text += fmt::format("{} {}", pass_name(static_cast<Pass>(i)), percent(seconds / total));
  }
  return fmt::format("    {}\n", text);
}

}  // namespace

std::string plan_report(const SearchResult& result, const ReportStyle& style) {
  const Plan& plan = *result.best;
  const Prediction& p = plan.predicted;
  std::string text =
      head(plan.model, plan.cluster, plan.job, result.counts, plan.memory_limit_bytes);
  text += fmt::format("\n  FITS   {}\n\n", plan.strategy.text(plan.job));
  text += fmt::format(
      "  Peak memory of a device        {} of {}   {}\n", format_bytes(p.peak_bytes),
      format_bytes(plan.memory_limit_bytes),
      percent(static_cast<double>(p.peak_bytes) / static_cast<double>(plan.memory_limit_bytes)));
  text += anatomy(p, plan.memory_limit_bytes, style);
  text += fmt::format("    at: {}, {}\n\n", p.peak_phase, p.peak_instruction);
  text += fmt::format("  Step time      {}   {} {}/s", format_seconds(p.step_seconds),
                      format_count(static_cast<int64_t>(p.tokens_per_second)),
                      plan.job.seq > 0 ? "tokens" : "samples");
  if (p.mfu > 0) text += fmt::format("   {} MFU", percent(p.mfu));
  text += fmt::format("\n{}", time_split(p));
  if (!result.alternatives.empty()) {
    text += fmt::format("\n  Next best{:>14}{:>11}\n", "memory", "time");
    int number = 2;
    for (const Candidate& other : result.alternatives) {
      text += fmt::format(
          "  {:>2}{:>21}{:>11}  {}\n", number++, format_bytes(other.predicted.peak_bytes),
          format_seconds(other.predicted.step_seconds), other.strategy.text(plan.job));
    }
  }
  return text;
}

std::string why_not_report(const SearchResult& result, const ModelSpec& model,
                           const Cluster& cluster, const Job& job, int64_t limit,
                           const ReportStyle& style) {
  const Candidate& c = result.smallest;
  const Prediction& p = c.predicted;
  std::string text = head(model, cluster, job, result.counts, limit);
  text +=
      fmt::format("\n  DOES NOT FIT   the smallest strategy tried needs {}, {} over the limit\n",
                  format_bytes(p.peak_bytes), format_bytes(p.peak_bytes - limit));
  text += fmt::format("    {}\n\n", c.strategy.text(job));
  text += "  What it needs on a device at its peak\n";
  text += anatomy(p, limit, style);
  text += fmt::format("    at: {}, {}\n", p.peak_phase, p.peak_instruction);
  int64_t states = 0;
  for (const Category category :
       {Category::kParameters, Category::kGradients, Category::kOptimizer}) {
    states += p.by_category[static_cast<size_t>(category)];
  }
  if (states > limit) {
    text += fmt::format(
        "\n  Weights, gradients and optimizer alone take {} at {} bytes a parameter:\n"
        "  no micro-batch or recompute helps; a smaller model, or devices with more memory, do.\n",
        format_bytes(states), state_bytes_per_parameter(job));
  } else {
    text +=
        "\n  Activations are what is too large: a shorter --seq, or devices with more memory, "
        "help.\n";
  }
  return text;
}

std::string why_not_json(const SearchResult& result, const ModelSpec& model, const Cluster& cluster,
                         const Job& job, int64_t limit) {
  const Prediction& p = result.smallest.predicted;
  nlohmann::ordered_json memory = nlohmann::ordered_json::object();
  for (int i = 0; i < kNumCategories; ++i) {
    memory[std::string(category_name(static_cast<Category>(i)))] =
        p.by_category[static_cast<size_t>(i)];
  }
  const nlohmann::ordered_json json = {
      {"model", {{"name", model.name}, {"parameters", count_parameters(model)}}},
      {"cluster", {{"text", cluster.text}, {"devices", cluster.num_devices()}}},
      {"job",
       {{"global_batch", job.global_batch},
        {"seq", job.seq},
        {"precision", dtype_name(job.precision)},
        {"optimizer", optimizer_name(job.optimizer)}}},
      {"why_not",
       {{"limit_bytes", limit},
        {"peak_bytes", p.peak_bytes},
        {"over_bytes", p.peak_bytes - limit},
        {"strategy", result.smallest.strategy.text(job)},
        {"phase", p.peak_phase},
        {"instruction", p.peak_instruction},
        {"memory", memory}}},
      {"search",
       {{"covered", result.counts.covered},
        {"evaluated", result.counts.evaluated},
        {"pruned", result.counts.pruned}}}};
  return json_text(json) + "\n";
}

}  // namespace plimsoll
