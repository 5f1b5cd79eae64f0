// What changes from step to step: learning rate and bias corrections.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll {

struct Schedule {
  enum class Kind : uint8_t { kConstant, kCosine };
  Kind kind = Kind::kConstant;
  double learning_rate = 1e-3;  // the highest
  int64_t warmup_steps = 0;     // linear, reaching the highest at the last of them
  int64_t total_steps = 1;      // cosine: where it ends
  double final_fraction = 0.1;  // cosine: of the highest, at the end
};

// Throws Error (exit 2) naming "constant" and "cosine".
[[nodiscard]] Schedule::Kind parse_schedule(std::string_view name);

// Of step `step`, 0-based: (step + 1) / warmup_steps of the highest during warm-up; then constant,
// or final + (highest - final) * (1 + cos(pi t)) / 2 with t from 0 at the first step behind the
// warm-up to 1 at total_steps (Loshchilov and Hutter 2017, without restarts).
[[nodiscard]] double learning_rate(const Schedule& schedule, int64_t step);

// 1 - beta^(step + 1): divides a moment that started at zero (Kingma and Ba 2015, section 3).
[[nodiscard]] double bias_correction(double beta, int64_t step);

}  // namespace plimsoll
