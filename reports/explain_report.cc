#include "reports/explain_report.h"

#include "base/units.h"
#include "reports/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace plimsoll {

namespace {

constexpr size_t kBuffers = 10;  // groups of buffers that are shown
constexpr size_t kChanges = 6;

// The report's one unit of memory: GiB, or a smaller one for small jobs.
struct Unit {
  double bytes = 0x1p30;
  const char* name = "GiB";
};

Unit unit_for(int64_t peak_bytes) {
  if (peak_bytes < int64_t{1} << 20) return {0x1p10, "KiB"};
  if (peak_bytes < int64_t{1} << 30) return {0x1p20, "MiB"};
  return {};
}

std::string percent(double part) { return fmt::format("{:.0f} %", part * 100); }

// A price in step time: "+2.1 %".
std::string price(const Option& option) {
  const double value = option.price * 100;
  return std::abs(value) < 0.05 ? "±0 %" : fmt::format("{:+.1f} %", value);
}

// "0-5, 7, 9-11"
std::string ranges(const std::set<int>& numbers) {
  std::string text;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const int first = *at;
    int last = first;
    while (++at != numbers.end() && *at == last + 1) ++last;
    text += (text.empty() ? "" : ", ") +
            (first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
  }
  return text;
}

std::string_view kind_of(std::string_view op) { return op.substr(0, op.find('.')); }

// "backward of linear (weight gradient)"
std::string call_words(Pass pass, const std::string& op) {
  const std::string_view part = std::string_view(op).substr(kind_of(op).size());
  std::string words = fmt::format("{} of {}", pass_name(pass), kind_of(op));
  if (part == ".backward_weight") words += " (weight gradient)";
  if (part == ".backward_input") words += " (input gradient)";
  return words;
}

std::string layer_words(int layer) {
  return layer < 0 ? std::string("outside the layers") : fmt::format("in layer {}", layer);
}

std::string peak_words(const PeakInstruction& at) {
  if (at.op.empty()) return fmt::format("phase {}", at.phase);
  std::string words = fmt::format("{}, ", at.phase == "step" ? "the step" : "phase " + at.phase);
  if (at.segment == "micro-batches") {
    words += fmt::format("micro-batch {} of {}, ", at.iteration + 1, at.repeat);
  } else {
    words += fmt::format("\"{}\", ", at.segment);
  }
  words += call_words(at.pass, at.op) + ", " + layer_words(at.layer);
  return at.writes.empty() ? words : words + ", which writes " + at.writes;
}

std::string group_name(const BufferGroup& group) {
  static const std::vector<std::pair<std::string, std::string>> kRoles = {
      {"parameter", "weights"},
      {"moment1", "first moments"},
      {"moment2", "second moments"},
      {"momentum", "momentum"},
      {"master", "master weights"},
      {"state", "running statistics"},
      {"gradients", "parameter gradients"}};
  std::string name = group.label;
  const bool by_role = group.persistent || group.category == Category::kGradients;
  for (const auto& [role, words] : kRoles) {
    if (by_role && group.label == role)
      return fmt::format("{} ({})", words, dtype_name(group.dtype));
  }
  if (group.layers.empty()) return name;
  return fmt::format("{}, layer{} {}", name, group.layers.size() == 1 ? "" : "s",
                     ranges(group.layers));
}

std::string reason(const BufferGroup& group) {
  if (group.persistent) return "kept from step to step";
  if (group.category == Category::kGradients) {
    return group.next.when == NextUse::When::kLater && group.next.pass == Pass::kBackward
               ? "sums over micro-batches"
               : "until the update";
  }
  switch (group.next.when) {
    case NextUse::When::kNow:
      return "in use now";
    case NextUse::When::kLater:
      return fmt::format("{} of {}", pass_name(group.next.pass), kind_of(group.next.op));
    case NextUse::When::kNever:
      return "until the phase ends";
  }
  return "";
}

std::string head(const Advice& advice) {
  const AdviceRequest& r = advice.request;
  const Job& job = r.job;
  std::string text;
  text += fmt::format("       Model  {} · {} parameters · {} layers\n", r.model.name,
                      format_count(count_parameters(r.model)), r.model.layers);
  text += fmt::format("     Cluster  {} · {} device{} · {} each\n", r.cluster.text,
                      format_count(r.cluster.num_devices()),
                      r.cluster.num_devices() == 1 ? "" : "s", format_bytes(r.memory_limit_bytes));
  text += fmt::format("         Job  {}{} {} a step · {} · {}\n", format_count(job.global_batch),
                      job.seq > 0 ? fmt::format(" × {}", format_count(job.seq)) : "",
                      job.seq > 0 ? "tokens" : "samples", dtype_name(job.precision),
                      optimizer_name(job.optimizer));
  text += fmt::format("   Explained  {}\n", advice.explained.configuration.strategy.text(job));
  return text;
}

// The parts that speak of memory, all in one unit.
class Report {
 public:
  explicit Report(const Advice& advice) : unit_(unit_for(advice.explained.predicted.peak_bytes)) {}

  // Bytes in the report's unit, three significant digits.
  [[nodiscard]] std::string in_unit(int64_t bytes) const {
    const double value = static_cast<double>(bytes) / unit_.bytes;
    const double size = std::abs(value);
    if (size >= 99.95) return fmt::format("{:.0f}", value);
    return size >= 9.995 ? fmt::format("{:.1f}", value) : fmt::format("{:.2f}", value);
  }

  [[nodiscard]] std::string verdict(const Advice& advice) const {
    const int64_t limit = advice.request.memory_limit_bytes;
    const Prediction& p = advice.explained.predicted;
    std::string text;
    if (advice.fits) {
      text +=
          fmt::format("\n  FITS   needs {} of {} {} a device, {} to spare\n", in_unit(p.peak_bytes),
                      in_unit(limit), unit_.name, format_bytes(limit - p.peak_bytes));
    } else {
      text += fmt::format("\n  DOES NOT FIT   needs {} of {} {} a device, {} too much\n",
                          in_unit(p.peak_bytes), in_unit(limit), unit_.name,
                          format_bytes(p.peak_bytes - limit));
    }
    text += fmt::format("  Predicted step time {}; the times below are against it.\n",
                        format_seconds(p.step_seconds));
    return text;
  }

  [[nodiscard]] std::string anatomy_by_category(const Advice& advice,
                                                const ReportStyle& style) const {
    const PeakAnatomy& a = advice.anatomy;
    const auto limit = static_cast<double>(advice.request.memory_limit_bytes);
    const double scale = std::max(limit, static_cast<double>(a.peak_bytes));
    TextTable table({{17, false}, {24, false}, {7, true}, {17, true}, {7, true}}, 4);
    std::string text;
    const auto row = [&](std::string_view name, int64_t bytes) {
      if (bytes <= 0) return;
      const double part = static_cast<double>(bytes);
      const int cells = std::max(1, static_cast<int>(part / scale * 20 + 0.5));
      std::string blocks;
      for (int i = 0; i < cells; ++i) blocks += style.unicode ? "█" : "#";
      text += table.row(
          {std::string(name), blocks, in_unit(bytes), format_count(bytes), percent(part / limit)});
    };
    text += table.row({"", "", unit_.name, "bytes", "device"});
    for (int c = 0; c < kNumCategories; ++c) {
      row(category_name(static_cast<Category>(c)),
          advice.explained.predicted.by_category[static_cast<size_t>(c)]);
    }
    row("packing", a.packing_bytes);
    row("outside the arena", a.outside_bytes);
    text += table.row({"peak", "", in_unit(a.peak_bytes), format_count(a.peak_bytes),
                       percent(static_cast<double>(a.peak_bytes) / limit)});
    return text;
  }

  [[nodiscard]] std::string anatomy_by_buffer(const PeakAnatomy& a) const {
    std::string text = "\n  Largest buffers then\n";
    const auto line = [](const std::string& size, const std::string& bytes, const std::string& what,
                         const std::string& why) {
      // What is too long for its column goes on a line of its own, above.
      if (display_width(what) <= 27) {
        return fmt::format("    {} {}  {} {}\n", pad_left(size, 5), pad_left(bytes, 15),
                           pad_right(what, 27), why);
      }
      return fmt::format("    {} {}  {}\n{}{}\n", pad_left(size, 5), pad_left(bytes, 15), what,
                         std::string(55, ' '), why);
    };
    text += line(unit_.name, "bytes", "what", "why: read next by");
    int64_t rest = 0;
    int64_t rest_count = 0;
    for (size_t g = 0; g < a.groups.size(); ++g) {
      const BufferGroup& group = a.groups[g];
      // Below a thousandth of the peak a buffer explains nothing.
      if (g >= kBuffers || group.bytes < a.peak_bytes / 1000) {
        rest += group.bytes;
        rest_count += group.count;
        continue;
      }
      text +=
          line(in_unit(group.bytes), format_count(group.bytes), group_name(group), reason(group));
    }
    if (rest > 0) {
      text += fmt::format("    {} {}  {} smaller buffer{}\n", pad_left(in_unit(rest), 5),
                          pad_left(format_count(rest), 15), format_count(rest_count),
                          rest_count == 1 ? "" : "s");
    }
    return text;
  }

  [[nodiscard]] std::string anatomy(const Advice& advice, const ReportStyle& style) const {
    std::string text = fmt::format(
        "\n  Where each byte is at the peak of rank {}{}\n    {}\n", advice.anatomy.rank,
        advice.explained.configuration.strategy.num_ranks() > 1 ? " (all ranks are alike)" : "",
        peak_words(advice.anatomy.at));
    text += anatomy_by_category(advice, style);
    return text + anatomy_by_buffer(advice.anatomy);
  }

  // Columns of a table of options.
  static const TextTable& option_table() {
    static const TextTable kTable(
        {{33, false}, {6, true}, {7, true}, {8, true}, {3, false}, {16, false}}, 2);
    return kTable;
  }

  // An option's row under `name`; a name too long for its column stands above the figures.
  [[nodiscard]] std::string option_row(const std::string& name, const Option& o,
                                       const std::string& remark) const {
    const auto figures = [&](const std::string& first) {
      return option_table().row({first, in_unit(o.saved_bytes),
                                 in_unit(o.evaluated.predicted.peak_bytes), price(o),
                                 o.fits ? "yes" : "no", remark});
    };
    if (display_width(name) <= 33) return figures(name);
    return "  " + name + "\n" + figures("");
  }

  [[nodiscard]] std::string option_heads(const std::string& title,
                                         const std::string& remark) const {
    return "\n" + option_table().row({title, "saves", "peak", "time", "", remark});
  }

  [[nodiscard]] std::string remains(const Option& o) const {
    const CategoryShare largest = largest_category(o.evaluated.predicted);
    return fmt::format("{} {}", category_name(largest.category), in_unit(largest.bytes));
  }

  [[nodiscard]] std::string ladder_rows(const Advice& advice) const {
    std::string text =
        option_heads(fmt::format("One trick at a time, in {}", unit_.name), "largest left");
    const ModelSpec& model = advice.request.model;
    for (const LadderStep& step : advice.ladder) {
      const std::string mark = step.dimension->same_result ? "" : " *";
      if (!step.refusal.empty()) {
        text += fmt::format("  {}: {}\n", step.dimension->title, step.refusal);
        continue;
      }
      if (!step.end) {
        const std::string now = step.dimension->text(model, advice.explained.configuration);
        if (!step.dimension->flag(model, advice.explained.configuration).empty()) {
          text += fmt::format("  {} in use already\n", pad_right(now, 33));
        }
        continue;
      }
      const bool two = step.first_fit && step.first_fit->text != step.end->text;
      if (two) {
        text += option_row(step.first_fit->text + mark, *step.first_fit, remains(*step.first_fit));
      }
      text += option_row(step.end->text + mark, *step.end, remains(*step.end));
    }
    if (advice.together) {
      text += option_row("all but those with *", *advice.together, remains(*advice.together));
    }
    if (advice.all_together &&
        advice.all_together->keys != advice.together.value_or(Option{}).keys) {
      text += option_row("all of these *", *advice.all_together, remains(*advice.all_together));
    }
    const bool marked =
        std::any_of(advice.ladder.begin(), advice.ladder.end(),
                    [](const auto& step) { return step.end && !step.dimension->same_result; });
    if (marked) text += "  * changes what is trained, not only how\n";
    return text;
  }

  // "add --micro-batch 4, drop --recompute"
  [[nodiscard]] std::string flag_words(const Option& o) const {
    std::string text;
    if (!o.flags.add.empty()) text += fmt::format("add {}", fmt::join(o.flags.add, " "));
    for (const std::string& flag : o.flags.drop) {
      text += (text.empty() ? "" : ", ") + fmt::format("drop {}", flag);
    }
    return text;
  }

  [[nodiscard]] std::string change_rows(const Advice& advice) const {
    if (advice.fits) return "";
    if (advice.changes.empty()) {
      std::string text = "\n  No one or two of these changes fit";
      if (advice.together && advice.together->fits) return text + "; all together do.\n";
      if (advice.all_together && advice.all_together->fits) return text + "; all with * do.\n";
      return text + ", nor do all together.\n";
    }
    std::string text = option_heads(fmt::format("Least changes that fit, in {}", unit_.name), "");
    for (size_t i = 0; i < advice.changes.size() && i < kChanges; ++i) {
      const Option& o = advice.changes[i];
      text += option_row(o.text + (o.same_result ? "" : " *"), o, "");
      text += fmt::format("    {}\n", flag_words(o));
    }
    if (advice.changes.size() > kChanges) {
      text += fmt::format("  and {} more: --json\n", advice.changes.size() - kChanges);
    }
    return text;
  }

  [[nodiscard]] std::string largest_row(const std::string& name, const Largest& largest) const {
    if (largest.value == 0) return fmt::format("    {}  none fits\n", pad_right(name, 34));
    const std::string next = largest.limited_by_memory
                                 ? fmt::format("{} needs {} {}", format_count(largest.next_value),
                                               in_unit(largest.next_peak_bytes), unit_.name)
                                 : largest.reason;
    const std::string row = fmt::format(
        "    {} {}  {} {}", pad_right(name, 34), pad_left(format_count(largest.value), 7),
        pad_left(in_unit(largest.at->evaluated.predicted.peak_bytes), 5), unit_.name);
    if (display_width(row + next) + 2 <= 80) return row + "  " + next + "\n";
    return row + "\n      " + next + "\n";
  }

  [[nodiscard]] std::string limits(const Advice& advice) const {
    std::string text = "\n  Largest that fits\n";
    const auto rows = [&](const std::string& name, const std::optional<LargestPair>& pair) {
      if (!pair) return;
      text += largest_row(name + ", all else the same", pair->configured);
      if (pair->open.value != pair->configured.value) {
        text += largest_row(name + ", unpinned left free", pair->open);
      }
    };
    rows("micro-batch", advice.micro_batch);
    rows("--seq", advice.seq);
    return text;
  }

  [[nodiscard]] std::string placed_row(const std::string& name,
                                       const std::optional<Option>& o) const {
    if (!o) return fmt::format("    {} none\n", pad_right(name, 19));
    const Configuration& c = o->evaluated.configuration;
    return fmt::format(
        "    {} {}  {} {}  {}{}\n", pad_right(name, 19), pad_right(c.cluster.text, 14),
        pad_left(in_unit(o->evaluated.predicted.peak_bytes), 5), unit_.name,
        format_seconds(o->evaluated.predicted.step_seconds), o->text.empty() ? "" : "  " + o->text);
  }

  // The line of `open` where it says more than `configured`.
  [[nodiscard]] std::string placed_rows(const std::optional<Option>& configured,
                                        const std::optional<Option>& open) const {
    std::string text = placed_row("all else the same", configured);
    const bool same =
        configured && open &&
        configured->evaluated.configuration.cluster == open->evaluated.configuration.cluster;
    if (!same) text += placed_row("unpinned left free", open);
    return text;
  }

  [[nodiscard]] std::string hardware(const Advice& advice) const {
    const DeviceAdvice& devices = advice.devices;
    const std::string& kind = advice.request.cluster.device.id;
    std::string text = fmt::format("\n  Fewest devices, {}, under data parallelism\n", kind);
    if (devices.states_exceed) {
      text += fmt::format(
          "    none: weights and optimizer alone are {} {} on every device, whatever their number. "
          "Data parallelism cannot help; sharding (ZeRO), tensor or pipeline "
          "parallelism over at least {} devices can.\n",
          in_unit(devices.floor_bytes - advice.anatomy.outside_bytes), unit_.name,
          devices.least_if_sharded);
    } else {
      text += placed_rows(devices.configured, devices.open);
    }
    text += fmt::format("\n  Smallest device of the catalogue that holds it, {} of them\n",
                        format_count(advice.request.cluster.num_devices()));
    return text + placed_rows(advice.hardware.configured, advice.hardware.open);
  }

  [[nodiscard]] std::string candidates(const Advice& advice) const {
    std::string text;
    const Job& job = advice.request.job;
    if (!advice.rejected.empty()) {
      text += fmt::format("\n  Nearest that do not fit, in {}\n", unit_.name);
      for (const Rejected& one : advice.rejected) {
        text += fmt::format("    {}\n      over by {}; most is {} {}, at {}\n",
                            one.evaluated.configuration.strategy.text(job), in_unit(one.over_bytes),
                            category_name(one.largest.category), in_unit(one.largest.bytes),
                            one.evaluated.predicted.peak_instruction);
      }
    }
    if (!advice.alternatives.empty()) {
      text += option_heads("Fastest that fit, pins left out", "");
      for (const Option& o : advice.alternatives) text += option_row(o.text, o, "");
    } else if (!advice.fits) {
      text +=
          fmt::format("\n  With the strategy left open nothing fits: {} covered, {} evaluated.\n",
                      format_count(advice.search.covered), format_count(advice.search.evaluated));
    }
    return text;
  }

 private:
  Unit unit_;
};

}  // namespace

std::string explain_report(const Advice& advice, const ReportStyle& style) {
  Report report(advice);
  const std::string text = head(advice) + report.verdict(advice) + report.anatomy(advice, style) +
                           report.ladder_rows(advice) + report.change_rows(advice) +
                           report.limits(advice) + report.hardware(advice) +
                           report.candidates(advice);
  return wrap_lines(style.unicode ? text : to_ascii(text), 80);
}

}  // namespace plimsoll
