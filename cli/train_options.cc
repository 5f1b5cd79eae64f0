#include "cli/train_options.h"

#include "base/error.h"
#include "base/files.h"
#include "costmodel/toml_read.h"

#include <fmt/format.h>

#include <cmath>
#include <sstream>

namespace plimsoll::cli {

void add_train_options(CLI::App& command, TrainArguments& a) {
  command.add_option("MODEL", a.model, "a built-in name, a config.json, or a JOB.toml")->required();
  add_job_options(command, a.job);
  const char* run = "Run";
  command.add_option("--plan", a.plan, "run this plan instead of searching one")->group(run);
  command
      .add_option("--data", a.data,
                  "text (bytes), tokens (.bin) or rows (.csv); synthetic data when left out")
      ->group(run);
  command.add_option("--devices", a.devices, "number of devices")->group(run);
  command.add_option("--device-memory", a.device_memory, "hard cap of a device, e.g. 512MiB")
      ->group(run);
  command.add_option("--backend", a.backend, "cpu")->group(run)->capture_default_str();
  command.add_option("--communicator", a.communicator, "threads")
      ->group(run)
      ->capture_default_str();
  command.add_option("--out", a.out, "run directory: plan, metrics, summary, checkpoints")
      ->group(run);
  command.add_option("--resume", a.resume, "go on in this run directory")->group(run);
  command.add_option("--init", a.init, "initial weights: safetensors, or llm.c's .bin")->group(run);
  command.add_option("--steps", a.steps)->group(run)->capture_default_str();
  command.add_option("--seed", a.seed)->group(run)->capture_default_str();
  command.add_option("--learning-rate", a.learning_rate)->group(run)->capture_default_str();
  command.add_option("--lr-schedule", a.lr_schedule, "constant or cosine")
      ->group(run)
      ->capture_default_str();
  command
      .add_option("--warmup-steps", a.warmup_steps, "default: a tenth of the steps, at most 100")
      ->group(run);
  command
      .add_option("--eval-every", a.eval_every, "steps between evaluations, 0: at the end alone")
      ->group(run)
      ->capture_default_str();
  command
      .add_option("--eval-batches", a.eval_batches,
                  "global batches an evaluation, 0: none (default 4, or what --plan says)")
      ->group(run);
  command.add_option("--target-loss", a.target_loss, "stop at this validation loss")->group(run);
  command.add_option("--patience", a.patience, "stop after so many evaluations without a new best")
      ->group(run)
      ->capture_default_str();
  command.add_option("--checkpoint-every", a.checkpoint_every, "steps, 0: when interrupted alone")
      ->group(run)
      ->capture_default_str();
  command.add_option("--keep-checkpoints", a.keep_checkpoints)->group(run)->capture_default_str();
  command.add_option("--batch", a.batch, "another name of --global-batch")->group(run);
  command.add_option("--norm-batch", a.norm_batch, "samples of a batch-norm group")->group(run);
  command.add_option("--profile", a.profile, "per-instruction times")->group(run);
  command
      .add_option("--noise-every", a.noise_every,
                  "on one device: steps between measurements of the gradient noise")
      ->group(run)
      ->capture_default_str();
  command.add_option("--threads", a.threads, "threads of a device, 0: the cores over the devices")
      ->group(run)
      ->capture_default_str();
  command.add_option("--data-order", a.data_order, "shuffled or sequential")
      ->group(run)
      ->capture_default_str()
      ->check(CLI::IsMember({"shuffled", "sequential"}));
  command.add_option("--validation-fraction", a.validation_fraction, "last part of the data")
      ->group(run)
      ->capture_default_str();
  for (CLI::Option* option : command.get_options()) {
    // A word on the command line overrides the same key of a JOB.toml.
    if (option->get_name() != "--help") {
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
  }
}

std::vector<std::string> job_file_words(const std::string& path) {
  const toml::table table = internal::parse_toml(read_file(path, 1 << 20), path);
  std::vector<std::string> words;
  for (const auto& [key, node] : table) {
    std::string name(key.str());
    std::replace(name.begin(), name.end(), '_', '-');
    if (name == "help") {  // CLI11 would leave by an exception of its own
      throw bad_input(fmt::format("{}:{}: unknown key 'help'", path, node.source().begin.line),
                      "keys are the names of the options, see `plimsoll train --help`");
    }
    std::string value;
    if (const auto text = node.value_exact<std::string>()) {
      value = *text;
    } else if (const auto truth = node.value_exact<bool>()) {
      value = *truth ? "true" : "false";
    } else if (const auto whole = node.value_exact<int64_t>()) {
      value = std::to_string(*whole);
    } else if (const auto number = node.value_exact<double>()) {
      value = fmt::format("{}", *number);
    } else {
      throw bad_input(fmt::format("{}:{}: {} is neither a word nor a number", path,
                                  node.source().begin.line, name));
    }
    if (name == "model") {
      words.insert(words.begin(), value);
    } else {
      words.push_back("--" + name + "=" + value);
    }
  }
  return words;
}

TrainArguments parse_job_file(const std::string& path, const std::vector<std::string>& typed) {
  std::vector<std::string> words = job_file_words(path);
  if (words.empty() || words.front().rfind("--", 0) == 0) {
    throw bad_input(path + ": no model", "add a line like: model = \"gpt2\"");
  }
  words.insert(words.end(), typed.begin(), typed.end());
  TrainArguments arguments;
  CLI::App command;
  add_train_options(command, arguments);
  try {
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
    command.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    throw bad_input(fmt::format("{}: {}", path, error.what()),
                    "keys are the names of the options, see `plimsoll train --help`");
  }
  return arguments;
}

namespace {

void require(bool good, const char* option, const std::string& value) {
  if (!good) throw bad_input(fmt::format("{} {} is out of range", option, value));
}

void refuse_what_cannot_run(const TrainArguments& a) {
  if (a.backend != "cpu") {
    throw bad_input(fmt::format("--backend {}: this build runs on cpu devices alone", a.backend),
                    "leave --backend out");
  }
  if (a.communicator != "threads") {
    throw bad_input(
        fmt::format("--communicator {}: devices of this build are threads", a.communicator),
        "leave --communicator out");
  }
  if (!a.profile.empty()) {
    throw bad_input("--profile: this version keeps no per-instruction times");
  }
  if (a.norm_batch != 0) {
    throw bad_input("--norm-batch: batch norm's group is the micro-batch in this version",
                    "pin --micro-batch instead");
  }
}

}  // namespace

TrainOptions executor_options(const TrainArguments& a) {
  refuse_what_cannot_run(a);
  const auto at_least = [](const char* option, int64_t value, int64_t least) {
    require(value >= least, option, std::to_string(value));
  };
  at_least("--steps", a.steps, 0);
  at_least("--seed", a.seed, 0);
  at_least("--eval-every", a.eval_every, 0);
  at_least("--eval-batches", a.eval_batches.value_or(0), 0);
  at_least("--patience", a.patience, 0);
  at_least("--checkpoint-every", a.checkpoint_every, 0);
  at_least("--keep-checkpoints", a.keep_checkpoints, 1);
  at_least("--noise-every", a.noise_every, 0);
  at_least("--threads", a.threads, 0);
  require(a.seed < (int64_t{1} << 53), "--seed", std::to_string(a.seed));
  require(a.threads <= 1024, "--threads", std::to_string(a.threads));
  require(a.keep_checkpoints <= 1000000, "--keep-checkpoints", std::to_string(a.keep_checkpoints));
  require(std::isfinite(a.learning_rate) && a.learning_rate > 0, "--learning-rate",
          std::to_string(a.learning_rate));
  require(a.validation_fraction >= 0 && a.validation_fraction < 1, "--validation-fraction",
          std::to_string(a.validation_fraction));
  if ((a.target_loss || a.patience > 0) && a.eval_batches.value_or(1) == 0) {
    throw bad_input(
        "--target-loss and --patience look at the validation loss, which --eval-batches "
        "0 turns off");
  }
  TrainOptions options;
  options.steps = a.steps;
  options.seed = static_cast<uint64_t>(a.seed);
  options.schedule.kind = parse_schedule(a.lr_schedule);
  options.schedule.learning_rate = a.learning_rate;
  options.schedule.total_steps = std::max<int64_t>(1, a.steps);
  options.schedule.warmup_steps = a.warmup_steps.value_or(std::min<int64_t>(100, a.steps / 10));
  at_least("--warmup-steps", options.schedule.warmup_steps, 0);
  options.threads_per_rank = static_cast<int>(a.threads);
  options.eval_every = a.eval_every;
  options.target_loss = a.target_loss;
  options.patience = a.patience;
  options.checkpoint_every = a.checkpoint_every;
  options.keep_checkpoints = static_cast<int>(a.keep_checkpoints);
  options.init_file = a.init;
  options.noise_every = a.noise_every;
  return options;
}

}  // namespace plimsoll::cli
