// How the terminal wants its text.
#pragma once

#include "reports/plan_report.h"

namespace plimsoll::cli {

// Blocks where the locale is UTF-8 (LC_ALL, LC_CTYPE, LANG), # otherwise.
[[nodiscard]] ReportStyle report_style();

}  // namespace plimsoll::cli
