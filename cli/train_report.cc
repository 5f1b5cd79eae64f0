#include "cli/train_report.h"

#include "base/units.h"
#include "cli/version.h"
#include "kernels/cpu/blas_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace plimsoll::cli {

StepPrinter::StepPrinter(int64_t total_steps, double predicted_step_seconds, bool terminal)
    : total_steps_(total_steps),
      predicted_step_seconds_(predicted_step_seconds),
      terminal_(terminal),
      every_(std::max<int64_t>(1, total_steps / 20)) {}

void StepPrinter::print_row(const StepMetrics& m) {
  if (!headed_) {
    fmt::print("{:>7} {:>9} {:>9} {:>9} {:>9} {:>10} {:>9} {:>8}\n", "step", "loss", "val loss",
               "|grad|", "lr", "per second", "step time", "vs plan");
    headed_ = true;
  }
  fmt::print("{:>7} {:>9.4f} {:>9} {:>9.3f} {:>9.2e} {:>10} {:>9} {:>+7.0f}%\n", m.step + 1, m.loss,
             m.validation_loss ? fmt::format("{:.4f}", *m.validation_loss) : "", m.gradient_norm,
             m.learning_rate, format_count(static_cast<int64_t>(m.tokens_per_second)),
             format_seconds(m.step_seconds), (m.step_seconds / predicted_step_seconds_ - 1) * 100);
  std::fflush(stdout);
}

void StepPrinter::show(const StepMetrics& m) {
  const int64_t done = m.step + 1;
  finish();
  if (done == 1 || done % every_ == 0 || done == total_steps_ || m.validation_loss) print_row(m);
  if (!terminal_) return;
  const double elapsed =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const int64_t cells = 20 * done / total_steps_;
  fmt::print(stderr, "    Training  step {} of {}  [{}{}]  eta {}", format_count(done),
             format_count(total_steps_), std::string(static_cast<size_t>(cells), '#'),
             std::string(static_cast<size_t>(20 - cells), '-'),
             format_seconds(elapsed / static_cast<double>(done) *
                            static_cast<double>(total_steps_ - done)));
  std::fflush(stderr);
}

void StepPrinter::finish() const {
  if (terminal_) fmt::print(stderr, "\r\033[K");
}

std::string final_table(const TrainResult& r) {
  std::string text = fmt::format("\n{:>6} {:>20} {:>20} {:>20}\n", "rank", "predicted arena B",
                                 "measured arena B", "device memory B");
  for (const RankReport& rank : r.ranks) {
    text += fmt::format(
        "{:>6} {:>20} {:>20} {:>20}{}\n", rank.rank, format_count(rank.predicted_arena_bytes),
        format_count(rank.measured_arena_bytes), format_count(rank.device_memory_bytes),
        rank.guard_intact ? "" : "  GUARD OVERWRITTEN");
  }
  text += fmt::format("\n   Step time  predicted {}, measured {} (median)\n",
                      format_seconds(r.predicted_step_seconds),
                      format_seconds(r.measured_step_seconds));
  const ResidentGrowth& g = r.resident;
  text += fmt::format(
      "    Resident  grew by {}: arenas {}, stacks {}, matrix library, code and heap {}"
      " (data set {} before)\n",
      format_bytes(g.growth_bytes()), format_bytes(g.arenas_bytes), format_bytes(g.stacks_bytes),
      format_bytes(g.rest_bytes()), format_bytes(g.data_set_bytes));
  return text;
}

Environment environment(const TrainOptions& options, const std::string& command_line) {
  return {{"version", kVersion},
          {"commit", kCommit},
          {"compiler", kCompiler},
          {"blas", blas_description()},
          {"threads_per_rank", std::to_string(options.threads_per_rank)},
          {"seed", std::to_string(options.seed)},
          {"command", command_line}};
}

}  // namespace plimsoll::cli
