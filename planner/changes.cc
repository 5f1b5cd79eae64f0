#include "planner/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace plimsoll {

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> result;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    result.push_back(d);
    if (d != n / d) result.push_back(n / d);
  }
  std::sort(result.begin(), result.end());
  return result;
}

bool is_partial(const Strategy& strategy) {
  const std::vector<Recompute>& kinds = strategy.recompute;
  return std::adjacent_find(kinds.begin(), kinds.end(), std::not_equal_to<>()) != kinds.end();
}

namespace {

using Settings = std::vector<Setting>;

Settings nothing(const ModelSpec& /*model*/, const Configuration& /*now*/) { return {}; }
void leave(Configuration& /*configuration*/) {}
bool belongs_to_job(const Pins& /*pins*/) { return true; }

// Micro-batch: fewer samples at once, more steps of accumulation.

int64_t share(const Configuration& now) {
  return now.job.global_batch / now.strategy.num_sample_ranks();
}

Setting micro_batch_of(int64_t size) {
  return [size](Configuration& c) { c.strategy.micro_batch = size; };
}

std::string micro_batch_text(const ModelSpec& /*model*/, const Configuration& c) {
  const int64_t steps = accumulation_steps(c.strategy, c.job);
  return fmt::format("micro-batch {} × {} step{}", c.strategy.micro_batch, steps,
                     steps == 1 ? "" : "s");
}

Settings smaller_micro_batches(const ModelSpec& /*model*/, const Configuration& now) {
  Settings settings;
  const std::vector<int64_t> sizes = divisors(share(now));
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    if (*size < now.strategy.micro_batch) settings.push_back(micro_batch_of(*size));
  }
  return settings;
}

// Accumulation over steps keeps all gradients; the whole share at once needs no accumulation.
Settings extreme_micro_batches(const ModelSpec& /*model*/, const Configuration& now) {
  return {micro_batch_of(1), micro_batch_of(share(now))};
}

// Selective recompute: the core of attention is made again in layers that kept it.

Settings selective_recompute(const ModelSpec& model, const Configuration& now) {
  if (model.heads == 0 || now.strategy.num_recomputed(Recompute::kNone) == 0) return {};
  return {[](Configuration& c) {
    std::replace(c.strategy.recompute.begin(), c.strategy.recompute.end(), Recompute::kNone,
                 Recompute::kSelective);
  }};
}

std::string selective_text(const ModelSpec& model, const Configuration& c) {
  const int count = c.strategy.num_recomputed(Recompute::kSelective);
  if (count == 0) return "attention's core kept";
  if (count == model.layers) return "selective recompute";
  return fmt::format("selective recompute of {} of {} layers", count, model.layers);
}

// Recompute: the first k layers, whose backward comes last. The others keep what they keep.

Setting recompute_of(int64_t count) {
  return [count](Configuration& c) {
    std::vector<Recompute>& kinds = c.strategy.recompute;
    std::replace(kinds.begin(), kinds.end(), Recompute::kFull, Recompute::kNone);
    std::fill_n(kinds.begin(), count, Recompute::kFull);
  };
}

std::string recompute_text(const ModelSpec& model, const Configuration& c) {
  const int64_t count = c.strategy.num_recomputed();
  if (count == 0) return "recompute none";
  if (count == model.layers) return "recompute every layer";
  return fmt::format("recompute {} of {} layers", count, model.layers);
}

Settings more_recompute(const ModelSpec& model, const Configuration& now) {
  Settings settings;
  for (int64_t k = now.strategy.num_recomputed() + 1; k <= model.layers; ++k) {
    settings.push_back(recompute_of(k));
  }
  return settings;
}

Settings extreme_recompute(const ModelSpec& model, const Configuration& /*now*/) {
  return {recompute_of(model.layers), [](Configuration& c) {
            std::fill(c.strategy.recompute.begin(), c.strategy.recompute.end(), Recompute::kNone);
          }};
}

// Of all layers. Precondition: not is_partial.
Recompute uniform_recompute(const Strategy& strategy) {
  return strategy.recompute.empty() ? Recompute::kNone : strategy.recompute.front();
}

void pin_recompute(Pins& pins, const Configuration& c) {
  pins.recompute.reset();
  if (is_partial(c.strategy)) return;
  pins.recompute = uniform_recompute(c.strategy);
}

std::string recompute_flag(const ModelSpec& model, const Configuration& c) {
  if (model.layers == 0 || is_partial(c.strategy)) return "";
  return fmt::format("--recompute {}", recompute_name(uniform_recompute(c.strategy)));
}

// Attention that never stores the scores.

Settings flash_attention(const ModelSpec& model, const Configuration& now) {
  if (model.heads == 0 || now.strategy.attention == "flash") return {};
  return {[](Configuration& c) { c.strategy.attention = "flash"; }};
}

std::string attention_text(const ModelSpec& /*model*/, const Configuration& c) {
  return c.strategy.attention + " attention";
}

std::string attention_flag(const ModelSpec& model, const Configuration& c) {
  return model.heads == 0 ? "" : fmt::format("--attention {}", c.strategy.attention);
}

// Loss in chunks: logits never stored whole.

Setting chunks_of(int64_t chunks) {
  return [chunks](Configuration& c) { c.strategy.loss_chunks = chunks; };
}

std::string chunks_text(const ModelSpec& /*model*/, const Configuration& c) {
  const int64_t chunks = c.strategy.loss_chunks;
  return chunks == 1 ? std::string("loss whole") : fmt::format("loss in {} chunks", chunks);
}

// The search's choices.
std::vector<int64_t> chunk_choices(const ModelSpec& model, const Configuration& now) {
  if (model.objective != Objective::kNextToken) return {1};
  std::vector<int64_t> choices = {1};
  for (const int64_t chunks : {4, 16}) {
    if (chunks <= now.job.seq) choices.push_back(chunks);
  }
  return choices;
}

Settings more_chunks(const ModelSpec& model, const Configuration& now) {
  Settings settings;
  for (const int64_t chunks : chunk_choices(model, now)) {
    if (chunks > now.strategy.loss_chunks) settings.push_back(chunks_of(chunks));
  }
  return settings;
}

Settings extreme_chunks(const ModelSpec& model, const Configuration& now) {
  Settings settings;
  std::vector<int64_t> choices = chunk_choices(model, now);
  for (auto chunks = choices.rbegin(); chunks != choices.rend(); ++chunks) {
    settings.push_back(chunks_of(*chunks));
  }
  return settings;
}

std::string chunks_flag(const ModelSpec& model, const Configuration& c) {
  if (model.objective != Objective::kNextToken) return "";
  return fmt::format("--loss-chunks {}", c.strategy.loss_chunks);
}

// ZeRO: states, then gradients, then parameters over the data-parallel ranks. Where the executor
// would have to run it (CPU devices) it is no choice, as in the search.

Setting sharding_of(int zero, bool prefetch) {
  return [zero, prefetch](Configuration& c) {
    c.strategy.zero = zero;
    c.strategy.zero_prefetch = prefetch;
  };
}

bool can_shard(const Configuration& now) {
  return now.strategy.dp > 1 && !now.cluster.device.shares_cores;
}

Settings more_sharding(const ModelSpec& /*model*/, const Configuration& now) {
  Settings settings;
  if (!can_shard(now)) return settings;
  const auto rank = [](int zero, bool prefetch) { return 2 * zero - (prefetch ? 1 : 0); };
  for (const auto& [zero, prefetch] :
       {std::pair{1, false}, {2, true}, {2, false}, {3, true}, {3, false}}) {
    if (rank(zero, prefetch) > rank(now.strategy.zero, now.strategy.zero_prefetch)) {
      settings.push_back(sharding_of(zero, prefetch));
    }
  }
  return settings;
}

// The least of all is one of the last two: which one depends on what is gathered at the peak.
Settings extreme_sharding(const ModelSpec& /*model*/, const Configuration& now) {
  if (!can_shard(now)) return {sharding_of(0, false)};
  return {sharding_of(3, false), sharding_of(2, false)};
}

std::string sharding_text(const ModelSpec& /*model*/, const Configuration& c) {
  if (c.strategy.zero == 0) return "no sharding";
  return fmt::format("ZeRO-{}{}", c.strategy.zero,
                     c.strategy.zero_prefetch ? " with prefetch" : "");
}

std::string sharding_flag(const ModelSpec& /*model*/, const Configuration& c) {
  return c.strategy.dp > 1 ? fmt::format("--zero {}", c.strategy.zero) : "";
}

// Precision and optimizer: what is trained changes.

std::string precision_flag(const ModelSpec& /*model*/, const Configuration& c) {
  switch (c.job.precision) {
    case DType::kF32:
      return "--precision fp32";
    case DType::kBF16:
      return "--precision bf16";
    case DType::kF16:
      return "--precision fp16";
    default:
      return "";
  }
}

Settings lower_precision(const ModelSpec& /*model*/, const Configuration& now) {
  if (dtype_bytes(now.job.precision) <= 2) return {};
  const Hardware& device = now.cluster.device;
  // Without a 16-bit type the device refuses bf16 by name.
  const char* name = device.bf16_flops <= 0 && device.f16_flops > 0 ? "fp16" : "bf16";
  return {[name](Configuration& c) { set_precision(c.job, name); }};
}

std::string precision_text(const ModelSpec& /*model*/, const Configuration& c) {
  return fmt::format("{}{}", dtype_name(c.job.precision),
                     c.job.master_weights ? " with f32 master weights" : "");
}

Settings lighter_optimizer(const ModelSpec& /*model*/, const Configuration& now) {
  Settings settings;
  if (moments_per_parameter(now.job) > 1) {
    settings.emplace_back([](Configuration& c) {
      c.job.optimizer = Optimizer::kSgd;
      if (c.job.momentum == 0) c.job.momentum = Job{}.momentum;
    });
  }
  if (moments_per_parameter(now.job) > 0) {
    settings.emplace_back([](Configuration& c) {
      c.job.optimizer = Optimizer::kSgd;
      c.job.momentum = 0;
    });
  }
  return settings;
}

std::string optimizer_text(const ModelSpec& /*model*/, const Configuration& c) {
  switch (c.job.optimizer) {
    case Optimizer::kAdamW:
      return "AdamW";
    case Optimizer::kAdam:
      return "Adam";
    case Optimizer::kLion:
      return "Lion";
    case Optimizer::kSgd:
      return c.job.momentum != 0 ? "SGD with momentum" : "SGD without momentum";
  }
  return "";
}

std::string optimizer_flag(const ModelSpec& /*model*/, const Configuration& c) {
  const std::string name = fmt::format("--optimizer {}", optimizer_name(c.job.optimizer));
  if (c.job.optimizer != Optimizer::kSgd) return name;
  return fmt::format("{} --momentum {}", name, c.job.momentum);
}

std::vector<Dimension> make_dimensions() {
  std::vector<Dimension> table;
  table.push_back(
      {.key = "micro_batch",
       .title = "smaller micro-batch",
       .text = micro_batch_text,
       .stronger = smaller_micro_batches,
       .extremes = extreme_micro_batches,
       .reset = [](Configuration& c) { c.strategy.micro_batch = 1; },
       .is_pinned = [](const Pins& pins) { return pins.micro_batch.has_value(); },
       .pin = [](Pins& pins, const Configuration& c) { pins.micro_batch = c.strategy.micro_batch; },
       .release = [](Pins& pins) { pins.micro_batch.reset(); },
       .option = "--micro-batch",
       .flag =
           [](const ModelSpec& /*model*/, const Configuration& c) {
             return fmt::format("--micro-batch {}", c.strategy.micro_batch);
           }});
  // Pinned, released and written by the next dimension: both are one field of the strategy.
  table.push_back({.key = "selective_recompute",
                   .title = "selective recompute",
                   .text = selective_text,
                   .stronger = selective_recompute,
                   .extremes = nothing,
                   .reset = leave,
                   .is_pinned = [](const Pins& pins) { return pins.recompute.has_value(); },
                   .option = "--recompute",
                   .flag = [](const ModelSpec& /*model*/,
                              const Configuration& /*c*/) { return std::string(); }});
  table.push_back({.key = "recompute",
                   .title = "recompute",
                   .text = recompute_text,
                   .stronger = more_recompute,
                   .extremes = extreme_recompute,
                   .reset =
                       [](Configuration& c) {
                         std::fill(c.strategy.recompute.begin(), c.strategy.recompute.end(),
                                   Recompute::kNone);
                       },
                   .is_pinned = [](const Pins& pins) { return pins.recompute.has_value(); },
                   .pin = pin_recompute,
                   .release = [](Pins& pins) { pins.recompute.reset(); },
                   .option = "--recompute",
                   .flag = recompute_flag});
  table.push_back(
      {.key = "attention",
       .title = "flash attention",
       .text = attention_text,
       .stronger = flash_attention,
       .extremes = nothing,
       .reset = leave,
       .is_pinned = [](const Pins& pins) { return pins.attention.has_value(); },
       .pin = [](Pins& pins, const Configuration& c) { pins.attention = c.strategy.attention; },
       .release = [](Pins& pins) { pins.attention.reset(); },
       .option = "--attention",
       .flag = attention_flag});
  table.push_back(
      {.key = "loss_chunks",
       .title = "loss in chunks",
       .text = chunks_text,
       .stronger = more_chunks,
       .extremes = extreme_chunks,
       .reset = [](Configuration& c) { c.strategy.loss_chunks = 1; },
       .is_pinned = [](const Pins& pins) { return pins.loss_chunks.has_value(); },
       .pin = [](Pins& pins, const Configuration& c) { pins.loss_chunks = c.strategy.loss_chunks; },
       .release = [](Pins& pins) { pins.loss_chunks.reset(); },
       .option = "--loss-chunks",
       .flag = chunks_flag});
  table.push_back({.key = "zero",
                   .title = "sharding",
                   .text = sharding_text,
                   .stronger = more_sharding,
                   .extremes = extreme_sharding,
                   .reset =
                       [](Configuration& c) {
                         c.strategy.zero = 0;
                         c.strategy.zero_prefetch = false;
                       },
                   .is_pinned = [](const Pins& pins) { return pins.zero.has_value(); },
                   .pin = [](Pins& pins, const Configuration& c) { pins.zero = c.strategy.zero; },
                   .release = [](Pins& pins) { pins.zero.reset(); },
                   .option = "--zero",
                   .flag = sharding_flag});
  table.push_back({.key = "precision",
                   .title = "mixed precision",
                   .same_result = false,
                   .text = precision_text,
                   .stronger = lower_precision,
                   .extremes = nothing,
                   .reset = leave,
                   .is_pinned = belongs_to_job,
                   .option = "--precision",
                   .flag = precision_flag});
  table.push_back({.key = "optimizer",
                   .title = "lighter optimizer",
                   .same_result = false,
                   .text = optimizer_text,
                   .stronger = lighter_optimizer,
                   .extremes = nothing,
                   .reset = leave,
                   .is_pinned = belongs_to_job,
                   .option = "--optimizer",
                   .flag = optimizer_flag});
  return table;
}

}  // namespace

const std::vector<Dimension>& change_dimensions() {
  static const std::vector<Dimension> kTable = make_dimensions();
  return kTable;
}

Pins pins_for(const Configuration& configuration, Pins pins) {
  for (const Dimension& dimension : change_dimensions()) {
    if (dimension.pin != nullptr) dimension.pin(pins, configuration);
  }
  if (pins.dp) pins.dp = configuration.strategy.dp;
  return pins;
}

FlagChange flag_change(const ModelSpec& model, const Pins& pins, const Configuration& from,
                       const Configuration& to) {
  FlagChange change;
  for (const Dimension& dimension : change_dimensions()) {
    // What the search does not choose stays as it is without a pin.
    const bool pinned = dimension.is_pinned(pins) || dimension.extremes(model, from).empty();
    const std::string flag = dimension.flag(model, to);
    if (pinned && flag == dimension.flag(model, from)) continue;
    if (flag.empty() && pinned) change.drop.push_back(dimension.option);
    if (!flag.empty()) change.add.push_back(flag);
  }
  if (pins.dp && to.strategy.dp != from.strategy.dp) {
    change.add.push_back(fmt::format("--dp {}", to.strategy.dp));
  }
  if (to.job.seq != from.job.seq) change.add.push_back(fmt::format("--seq {}", to.job.seq));
  return change;
}

}  // namespace plimsoll
