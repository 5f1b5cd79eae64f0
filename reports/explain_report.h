// The console report and the JSON of the fit advisor.
#pragma once

#include "planner/advisor.h"
#include "reports/plan_report.h"

#include <string>

namespace plimsoll {

// 80 columns; plain ASCII when the style says so. GiB with three significant digits, bytes exact
// where each byte is told.
[[nodiscard]] std::string explain_report(const Advice& advice, const ReportStyle& style);

// All of it, with every byte and second exact (docs/commands/explain.md has the keys).
[[nodiscard]] std::string explain_json(const Advice& advice);

}  // namespace plimsoll
