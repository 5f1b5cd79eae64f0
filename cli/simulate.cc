// plimsoll simulate PLAN.json: lowers a plan again and prints what is predicted of it.
#include "base/error.h"
#include "base/files.h"
#include "cli/context.h"
#include "cli/style.h"
#include "costmodel/rank_simulator.h"
#include "planner/search.h"
#include "program/text.h"
#include "reports/memory_csv.h"
#include "reports/plan_report.h"
#include "reports/trace.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <vector>

namespace plimsoll::cli {

namespace {

struct SimulateArguments {
  std::string plan, csv, json, trace;
  bool program = false;
};

// The programs of one rank of each pipeline stage, in order.
std::vector<StepProgram> stage_programs(std::vector<StepProgram> ranks) {
  std::erase_if(ranks, [](const StepProgram& program) {
    const Coordinates& at = program.header.coordinates;
    return at.dp != 0 || at.tp != 0 || at.cp != 0 || at.ep != 0;
  });
  std::sort(ranks.begin(), ranks.end(), [](const StepProgram& a, const StepProgram& b) {
    return a.header.coordinates.pp < b.header.coordinates.pp;
  });
  return ranks;
}

void write_trace(const Plan& plan, const std::string& file) {
  const std::vector<StepProgram> stages = stage_programs(rank_programs(plan));
  SimulateOptions options;
  options.record_events = true;
  write_file(file, trace_json(stages, simulate_ranks(stages, plan.cluster, options)));
}

void run(const SimulateArguments& a) {
  SearchResult result;
  result.best = parse_plan_json(read_file(a.plan), a.plan);
  result.counts = result.best->search;
  const StepProgram first = rank_programs(*result.best).front();
  if (a.program) {
    fmt::print("{}", to_text(first));
  } else if (a.json != "-") {
    fmt::print("{}", plan_report(result, report_style()));
  }
  if (!a.csv.empty()) write_file(a.csv, memory_csv(std::vector<StepProgram>{first}));
  if (!a.trace.empty()) write_trace(*result.best, a.trace);
  if (a.json.empty()) return;
  const Prediction& p = result.best->predicted;
  const SimulatedStep step = simulate(first, result.best->cluster);
  nlohmann::ordered_json passes = nlohmann::ordered_json::object();
  for (int i = 0; i < kNumPasses; ++i) {
    passes[std::string(pass_name(static_cast<Pass>(i)))] = p.pass_seconds[static_cast<size_t>(i)];
  }
  write_file(a.json, nlohmann::ordered_json{{"step_seconds", p.step_seconds},
                                            {"peak_bytes", p.peak_bytes},
                                            {"arena_bytes", p.arena_bytes},
                                            {"live_peak_bytes", p.live_peak_bytes},
                                            {"tokens_per_second", p.tokens_per_second},
                                            {"mfu", p.mfu},
                                            {"compute_seconds", step.compute_seconds},
                                            {"communication_seconds", step.communication_seconds},
                                            {"exposed_communication_seconds", step.exposed_seconds},
                                            {"pass_seconds", passes}}
                             .dump(2) +
                         "\n");
}

}  // namespace

void add_simulate(CLI::App& app, Context& context) {
  (void)context;
  CLI::App* command =
      app.add_subcommand("simulate", "lower a plan and predict its memory and step time");
  auto a = std::make_shared<SimulateArguments>();
  command->add_option("PLAN", a->plan, "a plan that `plimsoll plan --json` wrote")->required();
  command->add_flag("--program", a->program,
                    "print the program of rank 0: buffers and instructions");
  command->add_option("--trace", a->trace,
                      "write the simulated step as a trace for Perfetto (ui.perfetto.dev)");
  command->add_option("--csv", a->csv, "write the memory of every buffer at the peak");
  command->add_option("--json", a->json, "write the prediction, - for stdout alone");
  command->footer("Example:\n  plimsoll simulate plan.json --program | less");
  command->callback([a] { run(*a); });
}

}  // namespace plimsoll::cli
