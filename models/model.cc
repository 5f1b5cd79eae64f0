#include "models/model.h"

#include "base/error.h"
#include "models/builders/builder.h"

#include <cstdlib>
#include <initializer_list>
#include <utility>

namespace plimsoll {

namespace {

// Far above any model, and small enough that no loop over them runs away.
constexpr int64_t kMaxLayers = 100000;

void check(bool condition, const ModelSpec& spec, const std::string& message,
           const std::string& hint = "") {
  if (!condition) throw bad_input(fmt::format("model {}: {}", spec.name, message), hint);
}

void check_positive(const ModelSpec& spec,
                    std::initializer_list<std::pair<const char*, int64_t>> sizes) {
  for (const auto& [name, value] : sizes) {
    check(value > 0, spec, fmt::format("{} must be positive, not {}", name, value));
  }
}

void check_transformer(const ModelSpec& spec) {
  check_positive(spec, {{"hidden", spec.hidden},
                        {"heads", spec.heads},
                        {"kv_heads", spec.kv_heads},
                        {"head_dim", spec.head_dim},
                        {"feed_forward", spec.feed_forward}});
  check(spec.heads % spec.kv_heads == 0, spec,
        fmt::format("{} heads cannot share {} key/value heads", spec.heads, spec.kv_heads));
  if (spec.family == Family::kLlama) return;
  check(spec.kv_heads == spec.heads && checked_mul(spec.heads, spec.head_dim) == spec.hidden, spec,
        fmt::format("{} heads of {} must make up hidden size {}", spec.heads, spec.head_dim,
                    spec.hidden));
}

void check_spec(const ModelSpec& spec) {
  switch (spec.family) {
    case Family::kMlp:
      check_positive(spec, {{"inputs", spec.inputs}});
      check(spec.layers >= 0, spec, "layers must not be negative");
      if (spec.layers > 0) check_positive(spec, {{"hidden", spec.hidden}});
      if (spec.objective == Objective::kClasses) {
        check_positive(spec, {{"classes", spec.classes}});
      } else {
        check_positive(spec, {{"outputs", spec.outputs}});
      }
      break;
    case Family::kResNet:
      check_positive(spec, {{"hidden", spec.hidden},
                            {"image_size", spec.image_size},
                            {"channels", spec.channels},
                            {"classes", spec.classes}});
      check(!spec.stage_blocks.empty() && spec.stage_blocks.size() <= 16, spec,
            "a resnet has 1 to 16 stages");
      for (const int64_t blocks : spec.stage_blocks) {
        check(blocks > 0 && blocks <= kMaxLayers, spec, "each stage needs at least one block");
      }
      break;
    case Family::kVit:
      check_transformer(spec);
      check_positive(spec, {{"layers", spec.layers},
                            {"image_size", spec.image_size},
                            {"channels", spec.channels},
                            {"patch", spec.patch},
                            {"classes", spec.classes}});
      break;
    case Family::kGpt2:
    case Family::kLlama:
    case Family::kBert:
      check_transformer(spec);
      check_positive(spec, {{"layers", spec.layers},
                            {"vocabulary", spec.vocabulary},
                            {"max_positions", spec.max_positions}});
      break;
  }
  check(spec.layers <= kMaxLayers, spec,
        fmt::format("{} layers exceed the limit of {}", spec.layers, kMaxLayers));
}

bool is_text(Family family) {
  return family == Family::kGpt2 || family == Family::kLlama || family == Family::kBert;
}

void check_options(const ModelSpec& spec, const BuildOptions& options) {
  check(options.micro_batch > 0, spec,
        fmt::format("the micro-batch must be positive, not {}", options.micro_batch));
  check(options.float_type == DType::kF64 || options.float_type == DType::kF32 ||
            options.float_type == DType::kBF16 || options.float_type == DType::kF16,
        spec, fmt::format("{} is not a floating-point type", dtype_name(options.float_type)));
  check(options.dropout >= 0 && options.dropout < 1, spec,
        fmt::format("dropout must be in [0, 1), not {}", options.dropout));
  check(options.dropout == 0 || spec.family != Family::kResNet, spec, "a resnet has no dropout");
  check(options.attention == "flash" || options.attention == "naive", spec,
        fmt::format("attention is flash or naive, not {}", options.attention));
  check(options.loss_chunks >= 1, spec,
        fmt::format("loss chunks must be at least 1, not {}", options.loss_chunks));
  check(options.loss_chunks == 1 || spec.family == Family::kGpt2 || spec.family == Family::kLlama,
        spec, "only next-token models can compute their loss in chunks");
  if (!is_text(spec.family)) return;
  check(options.seq > 0, spec,
        fmt::format("the sequence length must be positive, not {}", options.seq));
  check(spec.family == Family::kLlama || options.seq <= spec.max_positions, spec,
        fmt::format("{} tokens a sequence, but it has {} learned positions", options.seq,
                    spec.max_positions),
        fmt::format("use --seq {} or less", spec.max_positions));
}

}  // namespace

std::string_view family_name(Family family) {
  switch (family) {
    case Family::kMlp:
      return "mlp";
    case Family::kResNet:
      return "resnet";
    case Family::kGpt2:
      return "gpt2";
    case Family::kLlama:
      return "llama";
    case Family::kBert:
      return "bert";
    case Family::kVit:
      return "vit";
  }
  return "?";
}

std::string_view objective_name(Objective objective) {
  switch (objective) {
    case Objective::kNextToken:
      return "next_token";
    case Objective::kMaskedToken:
      return "masked_token";
    case Objective::kClasses:
      return "classes";
    case Objective::kRegression:
      return "regression";
  }
  return "?";
}

Graph build_model(const ModelSpec& spec, const BuildOptions& options) {
  check_spec(spec);
  check_options(spec, options);
  switch (spec.family) {
    case Family::kMlp:
      return build_mlp(spec, options);
    case Family::kResNet:
      return build_resnet(spec, options);
    case Family::kGpt2:
      return build_gpt2(spec, options);
    case Family::kLlama:
      return build_llama(spec, options);
    case Family::kBert:
      return build_bert(spec, options);
    case Family::kVit:
      return build_vit(spec, options);
  }
  PLIMSOLL_CHECK(false, "family {}", static_cast<int>(spec.family));
  std::abort();
}

int64_t count_parameters(const ModelSpec& spec) {
  // The inference form has the same parameters and no lower bound on the micro-batch.
  return build_model(spec, {.micro_batch = 1,
                            .seq = 1,
                            .float_type = DType::kF32,
                            .training = false,
                            .save_rules = {},
                            .dropout = 0,
                            .attention = "flash",
                            .loss_chunks = 1})
      .num_parameters();
}

}  // namespace plimsoll
