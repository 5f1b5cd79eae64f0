// The console report of a plan, and of why nothing fits.
#pragma once

#include "planner/search.h"

#include <string>

namespace plimsoll {

struct ReportStyle {
  bool unicode = true;  // bars of blocks; else # and -
};

// Model, cluster, verdict, memory anatomy, step time and the next best, 80 columns.
[[nodiscard]] std::string plan_report(const SearchResult& result, const ReportStyle& style);

// What the smallest candidate needs, where, and by how much it exceeds the limit.
[[nodiscard]] std::string why_not_report(const SearchResult& result, const ModelSpec& model,
                                         const Cluster& cluster, const Job& job,
                                         int64_t memory_limit_bytes, const ReportStyle& style);

// The same facts as JSON text (model, cluster, job, why_not), for exit 3.
[[nodiscard]] std::string why_not_json(const SearchResult& result, const ModelSpec& model,
                                       const Cluster& cluster, const Job& job,
                                       int64_t memory_limit_bytes);

}  // namespace plimsoll
