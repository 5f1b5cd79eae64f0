// plimsoll explain: where memory goes, what would make a job fit, and at which price.
#include "base/error.h"
#include "base/files.h"
#include "base/units.h"
#include "cli/context.h"
#include "cli/job_options.h"
#include "cli/style.h"
#include "planner/advisor.h"
#include "reports/explain_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

namespace plimsoll::cli {

namespace {

struct ExplainArguments {
  std::string model, cluster, json;
  JobArguments job;
};

void run(const ExplainArguments& a, Context& context) {
  const Request request = resolve(a.model, a.cluster, a.job);
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const auto progress = [&](int64_t evaluated) {
    fmt::print(stderr, "\r   Evaluated  {} configurations", format_count(evaluated));
    std::fflush(stderr);
  };
  const Advice advice = advise({.model = request.model,
                                .cluster = request.cluster,
                                .job = request.job,
                                .pins = request.pins,
                                .memory_limit_bytes = request.memory_limit_bytes,
                                .objective = request.objective},
                               terminal ? std::function<void(int64_t)>(progress) : nullptr);
  if (terminal) fmt::print(stderr, "\r\033[K");
  if (a.json != "-") fmt::print("{}", explain_report(advice, report_style()));
  if (!a.json.empty()) write_file(a.json, explain_json(advice));
  if (!advice.fits) context.exit_code = static_cast<int>(ExitCode::kInfeasible);
}

}  // namespace

void add_explain(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand(
      "explain", "where memory goes, what would make a job fit, and at which price");
  auto a = std::make_shared<ExplainArguments>();
  command->add_option("MODEL", a->model, "a built-in name or a Hugging Face config.json")
      ->required();
  command
      ->add_option("CLUSTER", a->cluster, "e.g. 8xa100-80gb, 2x8xh100-sxm, 2xcpu, or a TOML file")
      ->required();
  add_job_options(*command, a->job);
  command->add_option("--json", a->json, "write all of it, - for stdout alone");
  command->footer(
      "Example:\n  plimsoll explain gpt2-xl 1xa100-40gb --global-batch 32 --micro-batch 32");
  command->callback([a, &context] { run(*a, context); });
}

}  // namespace plimsoll::cli
