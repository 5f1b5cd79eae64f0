#include "cli/job_options.h"

#include "base/error.h"
#include "base/units.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace plimsoll::cli {

void add_job_options(CLI::App& command, JobArguments& a) {
  const char* job = "Job";
  command
      .add_option("--global-batch", a.global_batch, "sequences or samples a step, over all devices")
      ->group(job);
  command.add_option("--seq", a.seq, "tokens a sequence")->group(job);
  command.add_option("--precision", a.precision, "fp32, bf16 or fp16")->group(job);
  command.add_option("--optimizer", a.optimizer, "adamw, adam, lion or sgd")
      ->group(job)
      ->capture_default_str();
  command.add_option("--framework", a.framework, "whose memory to predict: plimsoll")
      ->group(job)
      ->capture_default_str();
  command.add_option("--memory-limit", a.memory_limit, "cap on a device's peak, e.g. 40GiB")
      ->group(job);
  command.add_option("--objective", a.objective, "time or memory")
      ->group(job)
      ->capture_default_str();
  command.add_option("--tokens", a.tokens, "tokens to train on")->group(job);
  command
      .add_option("--weight-decay", a.weight_decay,
                  "decoupled by adamw and lion, else part of the gradient")
      ->group(job)
      ->capture_default_str();
  command.add_option("--decay", a.decay, "what decays: matrices or all")
      ->group(job)
      ->capture_default_str()
      ->check(CLI::IsMember({"matrices", "all"}));
  command.add_option("--beta1", a.beta1)->group(job)->capture_default_str();
  command.add_option("--beta2", a.beta2)->group(job)->capture_default_str();
  command.add_option("--epsilon", a.epsilon)->group(job)->capture_default_str();
  command.add_option("--momentum", a.momentum, "of SGD")->group(job)->capture_default_str();
  command.add_option("--clip", a.clip, "largest gradient norm, 0 for none")
      ->group(job)
      ->capture_default_str();
  command.add_option("--dropout", a.dropout, "probability")->group(job)->capture_default_str();
  const char* pins = "Pins (what is not pinned is searched)";
  command.add_option("--dp", a.pins.dp, "data parallel ranks")->group(pins);
  command.add_option("--tp", a.pins.tp, "tensor parallel ranks")->group(pins);
  command.add_option("--pp", a.pins.pp, "pipeline stages")->group(pins);
  command.add_option("--cp", a.pins.cp, "context parallel ranks")->group(pins);
  command.add_option("--ep", a.pins.ep, "expert parallel ranks")->group(pins);
  command.add_option("--zero", a.pins.zero, "ZeRO stage")->group(pins);
  command
      .add_option("--shard-group", a.pins.shard_group,
                  "ranks that ZeRO divides over; all when left out")
      ->group(pins);
  command.add_option("--sequence-parallel", a.pins.sequence_parallel)->group(pins);
  command.add_option("--micro-batch", a.pins.micro_batch, "samples a rank works on at once")
      ->group(pins);
  command
      .add_option("--schedule", a.pins.schedule,
                  "pipeline schedule: 1f1b, gpipe, interleaved or zb-h1")
      ->group(pins);
  command
      .add_option("--interleave", a.pins.interleave,
                  "model chunks a stage; implies --schedule interleaved")
      ->group(pins);
  command.add_option("--recompute", a.recompute, "none, selective or full")
      ->group(pins)
      ->check(CLI::IsMember({"none", "selective", "full"}));
  command.add_option("--attention", a.pins.attention, "flash or naive")
      ->group(pins)
      ->check(CLI::IsMember({"flash", "naive"}));
  command.add_option("--loss-chunks", a.pins.loss_chunks, "parts of the logits, 1: whole")
      ->group(pins);
}

int64_t default_device_memory(int64_t num_devices) {
  const int64_t host =
      static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  return host / 10 * 7 / num_devices;
}

namespace {

bool is_probability(double p) { return p >= 0 && p < 1; }

void check_numbers(const JobArguments& a) {
  const auto require = [](bool good, const char* option, double value) {
    if (!good) throw bad_input(fmt::format("{} {} is out of range", option, value));
  };
  require(a.weight_decay >= 0 && a.weight_decay < 1e6, "--weight-decay", a.weight_decay);
  require(is_probability(a.beta1), "--beta1", a.beta1);
  require(is_probability(a.beta2), "--beta2", a.beta2);
  require(a.epsilon > 0 && a.epsilon < 1, "--epsilon", a.epsilon);
  require(is_probability(a.momentum), "--momentum", a.momentum);
  require(a.clip >= 0 && a.clip < 1e30, "--clip", a.clip);
  require(is_probability(a.dropout), "--dropout", a.dropout);
  require(!a.tokens || *a.tokens > 0, "--tokens", static_cast<double>(a.tokens.value_or(1)));
}

}  // namespace

Request resolve(const std::string& model, const std::string& cluster, const JobArguments& a) {
  check_numbers(a);
  if (a.framework != "plimsoll") {
    throw bad_input(fmt::format("unknown framework '{}'", a.framework),
                    "this version has one profile: plimsoll");
  }
  Request request;
  request.model = load_model(model);
  request.cluster = parse_cluster(cluster);
  const bool cpu = request.cluster.device.shares_cores;
  Job& job = request.job;
  const bool text = request.model.training_length > 0;
  if (a.seq && !text) {
    throw bad_input(fmt::format("--seq {}: {} has no sequences", *a.seq, request.model.name));
  }
  job.seq = a.seq.value_or(request.model.training_length);
  job.global_batch = a.global_batch.value_or(request.cluster.num_devices());
  set_precision(job, a.precision.empty() ? (cpu ? "fp32" : "bf16") : a.precision);
  job.optimizer = parse_optimizer(a.optimizer);
  job.weight_decay = a.weight_decay;
  job.decay_all = a.decay == "all";
  job.beta1 = a.beta1;
  job.beta2 = a.beta2;
  job.epsilon = a.epsilon;
  job.momentum = a.momentum;
  job.clip = a.clip;
  job.dropout = a.dropout;
  job.eval_batches = kEvalBatches;
  check_job(request.model, job);
  request.pins = a.pins;
  if (a.pins.interleave.value_or(1) > 1 && !a.pins.schedule) request.pins.schedule = "interleaved";
  if (!a.recompute.empty()) request.pins.recompute = parse_recompute(a.recompute);
  request.objective = parse_objective(a.objective);
  request.memory_limit_bytes = !a.memory_limit.empty()
                                   ? parse_size(a.memory_limit, "--memory-limit")
                               : cpu ? default_device_memory(request.cluster.num_devices())
                                     : request.cluster.device.memory_bytes();
  if (request.memory_limit_bytes <= 0) {
    throw bad_input(fmt::format("the memory of {} is not known", request.cluster.device.id),
                    "give --memory-limit");
  }
  return request;
}

SearchResult search_with_progress(const Request& request, bool exhaustive) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const SearchProgress progress = [&](int64_t done, int64_t covered) {
    fmt::print(stderr, "\r   Searching  {} of {} strategies", format_count(done),
               format_count(covered));
    std::fflush(stderr);
  };
  SearchResult result =
      search(request.model, request.cluster, request.job, request.pins, request.memory_limit_bytes,
             request.objective, exhaustive, terminal ? progress : SearchProgress{});
  if (terminal) fmt::print(stderr, "\r\033[K");
  return result;
}

}  // namespace plimsoll::cli
