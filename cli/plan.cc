// plimsoll plan: searches a strategy, prints it, writes plan and memory reports.
#include "base/error.h"
#include "base/files.h"
#include "cli/context.h"
#include "cli/job_options.h"
#include "cli/style.h"
#include "reports/memory_csv.h"
#include "reports/plan_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>

namespace plimsoll::cli {

namespace {

struct PlanArguments {
  std::string model, cluster, csv, csv_summary, json;
  bool exhaustive = false;
  JobArguments job;
};

void run(const PlanArguments& a, Context& context) {
  const Request request = resolve(a.model, a.cluster, a.job);
  const SearchResult result = search_with_progress(request, a.exhaustive);
  const bool json_alone = a.json == "-";
  if (!result.best) {
    if (!json_alone) {
      fmt::print("{}", why_not_report(result, request.model, request.cluster, request.job,
                                      request.memory_limit_bytes, report_style()));
    }
    if (!a.json.empty()) {
      write_file(a.json, why_not_json(result, request.model, request.cluster, request.job,
                                      request.memory_limit_bytes));
    }
    context.exit_code = static_cast<int>(ExitCode::kInfeasible);
    return;
  }
  if (!json_alone) fmt::print("{}", plan_report(result, report_style()));
  if (!a.json.empty()) write_file(a.json, plan_json(*result.best));
  if (a.csv.empty() && a.csv_summary.empty()) return;
  const std::vector<StepProgram> stages = stage_programs(*result.best);
  if (!a.csv.empty()) write_file(a.csv, memory_csv(stages));
  if (!a.csv_summary.empty()) {
    write_file(a.csv_summary, memory_summary_csv(stages, request.memory_limit_bytes));
  }
}

}  // namespace

void add_plan(CLI::App& app, Context& context) {
  CLI::App* command =
      app.add_subcommand("plan", "find the best way to run a training job, without running it");
  auto a = std::make_shared<PlanArguments>();
  command->add_option("MODEL", a->model, "a built-in name or a Hugging Face config.json")
      ->required();
  command
      ->add_option("CLUSTER", a->cluster, "e.g. 8xa100-80gb, 2x8xh100-sxm, 2xcpu, or a TOML file")
      ->required();
  add_job_options(*command, a->job);
  command->add_flag("--exhaustive", a->exhaustive, "evaluate every strategy, prune nothing");
  command->add_option("--csv", a->csv, "write the memory of every buffer at the peak");
  command->add_option("--csv-summary", a->csv_summary, "write memory by category");
  command->add_option("--json", a->json, "write the plan, - for stdout alone");
  command->footer(
      "Example:\n  plimsoll plan llama3-8b 8xa100-80gb --global-batch 64 --seq 2048 --json "
      "plan.json");
  command->callback([a, &context] { run(*a, context); });
}

}  // namespace plimsoll::cli
