#include "planner/strategy.h"

#include "base/error.h"
#include "models/stage.h"

#include <algorithm>

namespace plimsoll {

std::string_view recompute_name(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone:
      return "none";
    case Recompute::kSelective:
      return "selective";
    case Recompute::kFull:
      return "full";
  }
  return "?";
}

std::optional<Recompute> parse_recompute(std::string_view name) {
  for (const Recompute kind : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    if (recompute_name(kind) == name) return kind;
  }
  return std::nullopt;
}

int Strategy::num_recomputed(Recompute kind) const {
  return static_cast<int>(std::count(recompute.begin(), recompute.end(), kind));
}

std::string Strategy::recompute_text() const {
  std::string text;
  for (const Recompute kind : {Recompute::kFull, Recompute::kSelective}) {
    const int count = num_recomputed(kind);
    if (count == 0) continue;
    if (count == static_cast<int>(recompute.size())) return std::string(recompute_name(kind));
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", recompute_name(kind), count);
  }
  return text.empty() ? "none" : fmt::format("{} of {} layers", text, recompute.size());
}

std::string Strategy::text(const Job& job) const {
  std::string text =
      fmt::format("dp {} · micro-batch {} × {} step{}", dp, micro_batch,
                  accumulation_steps(*this, job), accumulation_steps(*this, job) == 1 ? "" : "s");
  if (ep > 1) text = fmt::format("ep {} · {}", ep, text);
  if (tp > 1) {
    text = fmt::format("tp {}{} · {}", tp, sequence_parallel ? " with sequence parallelism" : "",
                       text);
  }
  if (pp > 1) text += fmt::format(" · {} stages, {}", pp, schedule);
  if (interleave > 1) text += fmt::format(" with {} chunks a stage", interleave);
  if (zero > 0) text += fmt::format(" · ZeRO-{}{}", zero, zero_prefetch ? " with prefetch" : "");
  if (shard_group > 0) text += fmt::format(" in groups of {}", shard_group);
  text += " · recompute " + recompute_text();
  if (loss_chunks > 1) text += fmt::format(" · loss in {} chunks", loss_chunks);
  return text;
}

int64_t accumulation_steps(const Strategy& strategy, const Job& job) {
  return job.global_batch / (strategy.num_sample_ranks() * strategy.micro_batch);
}

std::vector<int> stage_bounds(const ModelSpec& model, const Strategy& strategy) {
  if (!strategy.stage_bounds.empty()) return strategy.stage_bounds;
  return even_stages(static_cast<int>(model.layers), strategy.pp * strategy.interleave);
}

std::string why_not_runnable(const Strategy& strategy) {
  if (strategy.cp > 1 || strategy.ep > 1) {
    return "the executor has no groups for context and expert parallelism";
  }
  if (strategy.shard_group > 0) {
    return "the executor shards over the whole data-parallel group alone";
  }
  return "";
}

namespace {

void check_pipeline(const ModelSpec& model, const Strategy& strategy) {
  if (strategy.pp < 1) throw bad_input(fmt::format("--pp {} is not positive", strategy.pp));
  const bool interleaved = strategy.schedule == "interleaved";
  if (strategy.schedule != "1f1b" && strategy.schedule != "gpipe" && strategy.schedule != "zb-h1" &&
      !interleaved) {
    throw bad_input(fmt::format(
        "--schedule {}: this version plans 1f1b, gpipe, interleaved and zb-h1", strategy.schedule));
  }
  if (strategy.interleave < 1) {
    throw bad_input(fmt::format("--interleave {} is not positive", strategy.interleave));
  }
  if (strategy.interleave > 1 && (!interleaved || strategy.pp == 1)) {
    throw bad_input(fmt::format("--interleave {} goes with several pipeline stages and "
                                "--schedule interleaved",
                                strategy.interleave),
                    "add --pp and --schedule interleaved, or leave --interleave out");
  }
  if (strategy.pp == 1) return;
  if (interleaved && strategy.interleave == 1) {
    throw bad_input("an interleaved schedule has at least two chunks a stage",
                    "add --interleave 2, or use --schedule 1f1b");
  }
  const int parts = strategy.pp * strategy.interleave;
  const std::vector<int> bounds = stage_bounds(model, strategy);
  bool good = static_cast<int>(bounds.size()) == parts + 1 && bounds.front() == 0 &&
              bounds.back() == model.layers;
  for (size_t i = 1; good && i < bounds.size(); ++i) good = bounds[i] > bounds[i - 1];
  if (!good) {
    throw bad_input(
        fmt::format("the stage bounds do not cut {} layers into {} stages", model.layers, parts));
  }
}

void check_zero(const Strategy& strategy) {
  if (strategy.zero < 0 || strategy.zero > 3) {
    throw bad_input(fmt::format("--zero {} is not 0, 1, 2 or 3", strategy.zero));
  }
  if (strategy.zero > 0 && strategy.num_replicas() == 1) {
    throw bad_input(
        fmt::format("--zero {} shards over data-parallel ranks, and there is one", strategy.zero),
        "use --zero 0, or more devices");
  }
  if (strategy.zero_prefetch && strategy.zero < 2) {
    throw bad_input(fmt::format("ZeRO-{} has nothing to prefetch", strategy.zero),
                    "prefetch goes with ZeRO-2 and ZeRO-3");
  }
  if (strategy.shard_group == 0) return;
  if (strategy.zero == 0) {
    throw bad_input(
        fmt::format("--shard-group {} shards nothing without ZeRO", strategy.shard_group),
        "add --zero, or leave --shard-group out");
  }
  if (strategy.shard_group < 2 || strategy.num_replicas() % strategy.shard_group != 0) {
    throw bad_input(fmt::format("--shard-group {} does not divide {} data-parallel ranks",
                                strategy.shard_group, strategy.num_replicas()),
                    "use a divisor of at least 2");
  }
  if (strategy.ep > 1) {
    throw bad_input("hybrid sharding goes with one expert-parallel rank",
                    "leave --shard-group or --ep out");
  }
}

void check_experts(const ModelSpec& model, const Strategy& strategy) {
  if (strategy.ep < 1) throw bad_input(fmt::format("--ep {} is not positive", strategy.ep));
  if (strategy.ep == 1) return;
  if (!model.experts) {
    throw bad_input(fmt::format("--ep {}: {} has no experts", strategy.ep, model.name),
                    "use --ep 1");
  }
  if (model.experts->routed % strategy.ep != 0) {
    throw bad_input(
        fmt::format("--ep {} does not divide {} experts", strategy.ep, model.experts->routed),
        "use a divisor of their number");
  }
}

}  // namespace

void check_strategy(const ModelSpec& model, const Job& job, const Strategy& strategy) {
  const auto degree = [](const char* name, int value) {
    if (value < 1) throw bad_input(fmt::format("--{} {} is not positive", name, value));
    if (value > 1) {
      throw bad_input(fmt::format("--{} {}: this version plans no such split", name, value),
                      fmt::format("use --{} 1", name));
    }
  };
  if (strategy.tp < 1) throw bad_input(fmt::format("--tp {} is not positive", strategy.tp));
  degree("cp", strategy.cp);
  check_experts(model, strategy);
  if (strategy.sequence_parallel && strategy.tp == 1) {
    throw bad_input("sequence parallelism goes with tensor parallelism",
                    "add --tp, or leave --sequence-parallel out");
  }
  check_pipeline(model, strategy);
  if (strategy.dp < 1) throw bad_input(fmt::format("--dp {} is not positive", strategy.dp));
  check_zero(strategy);
  if (strategy.micro_batch < 1) {
    throw bad_input(fmt::format("--micro-batch {} is not positive", strategy.micro_batch));
  }
  const int64_t a_round = checked_mul(strategy.num_sample_ranks(), strategy.micro_batch);
  if (job.global_batch % a_round != 0) {
    throw bad_input(fmt::format("--global-batch {} is not a multiple of dp {}{} × micro-batch {}",
                                job.global_batch, strategy.dp,
                                strategy.ep > 1 ? fmt::format(" × ep {}", strategy.ep) : "",
                                strategy.micro_batch),
                    fmt::format("use a multiple of {}", a_round));
  }
  const int64_t microbatches = accumulation_steps(strategy, job);
  if (strategy.interleave > 1 && microbatches % strategy.pp != 0) {
    throw bad_input(fmt::format("an interleaved schedule needs a multiple of {} micro-batches, "
                                "one for each stage, not {}",
                                strategy.pp, microbatches),
                    "choose another --micro-batch or --pp, or --schedule 1f1b");
  }
  if (static_cast<int64_t>(strategy.recompute.size()) != model.layers) {
    throw bad_input(fmt::format("the plan says what to recompute for {} layers, {} has {}",
                                strategy.recompute.size(), model.name, model.layers));
  }
  if (strategy.loss_chunks < 1) {
    throw bad_input(fmt::format("loss chunks {} is not positive", strategy.loss_chunks));
  }
}

}  // namespace plimsoll
