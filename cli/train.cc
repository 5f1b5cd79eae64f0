// plimsoll train: plans (or takes a plan), runs it, and shows predicted against measured.
#include "base/error.h"
#include "base/files.h"
#include "base/units.h"
#include "cli/context.h"
#include "cli/style.h"
#include "cli/train_options.h"
#include "cli/train_report.h"
#include "costmodel/hardware.h"
#include "executor/checkpoint.h"
#include "reports/memory_csv.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

namespace plimsoll::cli {

namespace {

// The product of pinned degrees, or what --devices says.
int64_t num_devices(const TrainArguments& a, const std::optional<Plan>& plan) {
  const Pins& pins = a.job.pins;
  int64_t product = plan ? plan->strategy.num_ranks() : 1;
  if (!plan) {
    for (const auto& degree : {pins.dp, pins.tp, pins.pp, pins.cp, pins.ep}) {
      product = checked_mul(product, degree.value_or(1));
    }
  }
  const int64_t devices = a.devices.value_or(product);
  if (devices < 1 || devices > 256) {
    throw bad_input(fmt::format("--devices {} is out of range", devices), "use 1 to 256");
  }
  if (plan && devices != product) {
    throw bad_input(fmt::format("the plan is for {} devices, not for {}", product, devices),
                    "leave --plan out to plan for the devices at hand");
  }
  return devices;
}

// The plan of --plan, lowered anew for the CPU devices at hand.
Plan adopt_plan(Plan plan, const TrainArguments& a, const ModelSpec& model, int64_t devices,
                int64_t device_memory) {
  const std::string& file = a.plan;
  if (plan.model.name != model.name || count_parameters(plan.model) != count_parameters(model)) {
    throw bad_input(
        fmt::format("{} is a plan for {}, not for {}", file, plan.model.name, model.name));
  }
  if (plan.job.precision != DType::kF32) {
    throw bad_input(fmt::format("{}: {} is planned, but cpu devices run fp32 alone", file,
                                dtype_name(plan.job.precision)),
                    "plan with --precision fp32");
  }
  if (!plan.cluster.device.shares_cores) {
    plan.cluster = parse_cluster(fmt::format("{}xcpu", devices));
  }
  plan.job.eval_batches = a.eval_batches.value_or(plan.job.eval_batches);
  plan.predicted = predict(lower_plan(plan.model, plan.cluster, plan.job, plan.strategy),
                           plan.cluster, plan.job);
  plan.memory_limit_bytes = device_memory;
  return plan;
}

// Searches a plan for the devices; exit 3 with the reasons when nothing fits.
std::optional<Plan> make_plan(const TrainArguments& a, int64_t devices, int64_t device_memory) {
  Request request = resolve(a.model, fmt::format("{}xcpu", devices), a.job);
  if (request.job.precision != DType::kF32) {
    throw bad_input(fmt::format("{} is planned, but cpu devices run fp32 alone",
                                dtype_name(request.job.precision)),
                    "leave --precision out");
  }
  const bool validates = a.validation_fraction > 0 || a.data.empty();
  request.job.eval_batches = validates ? a.eval_batches.value_or(kEvalBatches) : 0;
  request.job.measure_noise = a.noise_every > 0;
  request.memory_limit_bytes = a.job.memory_limit.empty()
                                   ? device_memory
                                   : std::min(device_memory, request.memory_limit_bytes);
  SearchResult result = search_with_progress(request, false);
  if (!result.best) {
    fmt::print(stderr, "error: no plan fits in {} a device\n", format_bytes(device_memory));
    fmt::print("{}", why_not_report(result, request.model, request.cluster, request.job,
                                    request.memory_limit_bytes, report_style()));
    return std::nullopt;
  }
  fmt::print("{}\n", plan_report(result, report_style()));
  return std::move(result.best);
}

void refuse_what_is_only_planned(const Strategy& strategy) {
  const std::string reason = why_not_runnable(strategy);
  if (reason.empty()) return;
  throw bad_input(fmt::format("the plan cannot be run: {}", reason),
                  "plan it with `plimsoll plan`; to train, leave --tp, --pp and --zero out");
}

std::string prepare_run_directory(const TrainArguments& a, TrainOptions& options) {
  const std::string out = !a.resume.empty() ? a.resume : a.out;
  if (!a.resume.empty() && !a.out.empty() && a.out != a.resume) {
    throw bad_input("--out and --resume name different folders", "give --resume alone");
  }
  options.out_dir = out;
  options.resume = !a.resume.empty();
  if (out.empty()) return out;
  if (!options.resume && find_newest_checkpoint(out + "/checkpoints").checkpoint.has_value()) {
    throw bad_input(fmt::format("{} holds a run with a checkpoint", out),
                    fmt::format("go on with --resume {}, or choose another --out", out));
  }
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error) throw run_failed(fmt::format("cannot create {}: {}", out, error.message()));
  return out;
}

// "940 KiB", or from the least to the most where stages differ.
std::string arena_sizes(const std::vector<StepProgram>& programs) {
  int64_t least = programs.front().header.arena_bytes;
  int64_t most = least;
  for (const StepProgram& program : programs) {
    least = std::min(least, program.header.arena_bytes);
    most = std::max(most, program.header.arena_bytes);
  }
  return least == most ? format_bytes(most)
                       : fmt::format("{} to {}", format_bytes(least), format_bytes(most));
}

void report_end(const TrainResult& result, double seconds, Context& context) {
  fmt::print("{}", final_table(result));
  if (!result.checkpoint.empty()) fmt::print("       Saved  {}\n", result.checkpoint);
  std::string losses;
  if (result.final_loss) losses += fmt::format(" · loss {:.4f}", *result.final_loss);
  if (result.validation_loss)
    losses += fmt::format(" · validation {:.4f}", *result.validation_loss);
  if (result.validation_accuracy) {
    losses += fmt::format(" · accuracy {:.1f} %", *result.validation_accuracy * 100);
  }
  if (result.noise_scale) losses += fmt::format(" · noise scale {:.1f}", *result.noise_scale);
  const char* verb = result.stop == StopReason::kInterrupted ? "Interrupted" : "Finished";
  fmt::print("{:>12}  {} steps in {} ({}){}\n", verb, format_count(result.steps),
             format_seconds(seconds), stop_reason_name(result.stop), losses);
  if (result.stop == StopReason::kInterrupted) context.exit_code = 128 + result.signal;
}

void run(const TrainArguments& a, Context& context) {
  TrainOptions options = executor_options(a);
  const ModelSpec model = load_model(a.model);
  std::optional<Plan> plan;
  if (!a.plan.empty()) plan = parse_plan_json(read_file(a.plan), a.plan);
  const int64_t devices = num_devices(a, plan);
  options.device_memory_bytes = a.device_memory.empty()
                                    ? default_device_memory(devices)
                                    : parse_size(a.device_memory, "--device-memory");
  if (options.threads_per_rank == 0) {
    options.threads_per_rank = static_cast<int>(std::max<int64_t>(1, host_cores() / devices));
  }
  const std::string out = prepare_run_directory(a, options);
  plan = plan ? adopt_plan(std::move(*plan), a, model, devices, options.device_memory_bytes)
              : make_plan(a, devices, options.device_memory_bytes);
  if (!plan) {
    context.exit_code = static_cast<int>(ExitCode::kInfeasible);
    return;
  }
  refuse_what_is_only_planned(plan->strategy);
  const std::vector<StepProgram> programs = rank_programs(*plan);
  options.plan_hash = sha256_hex(plan_json(*plan));
  const std::unique_ptr<DataSource> data = open_data(a.data, describe_data(programs),
                                                     {.seed = options.seed,
                                                      .validation_fraction = a.validation_fraction,
                                                      .shuffle = a.data_order == "shuffled"});
  fmt::print("        Data  {}\n", data->description());
  fmt::print("   Allocated  {} × {} in one arena each (cap {})\n", devices, arena_sizes(programs),
             format_bytes(options.device_memory_bytes));
  if (!out.empty()) {
    write_file(out + "/plan.json", plan_json(*plan));
    write_file(out + "/memory.csv", memory_csv(programs));
  }
  options.signal = context.signal;
  const auto start = std::chrono::steady_clock::now();
  StepPrinter printer(a.steps, plan->predicted.step_seconds, isatty(STDERR_FILENO) != 0);
  TrainCallbacks callbacks;
  callbacks.on_step = [&](const StepMetrics& metrics) { printer.show(metrics); };
  callbacks.on_message = [&](const std::string& message) {
    printer.finish();
    fmt::print(stderr, "{}\n", message);
  };
  const TrainResult result = train(programs, *data, options, callbacks);
  printer.finish();
  if (!out.empty()) {
    write_file(out + "/summary.json",
               summary_json(result, environment(options, context.command_line)));
  }
  report_end(result,
             std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
             context);
}

}  // namespace

void add_train(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("train", "plan a training run and run it as planned");
  auto a = std::make_shared<TrainArguments>();
  add_train_options(*command, *a);
  command->footer(
      "Example:\n  plimsoll train gpt2-bytes --data text.txt --devices 2 --device-memory 200MiB "
      "--steps 200 --out run");
  command->callback([a, command, &context] {
    const bool is_job_file = a->model.size() > 5 && a->model.ends_with(".toml");
    if (!is_job_file) return run(*a, context);
    std::vector<std::string> typed;
    for (const CLI::Option* option : command->get_options()) {
      if (option->count() == 0 || option->get_name() == "MODEL") continue;
      typed.push_back(option->get_name() + "=" + option->results().back());
    }
    run(parse_job_file(a->model, typed), context);
  });
}

}  // namespace plimsoll::cli
