// summary.json: what a run came to, for programs that read it.
#pragma once

#include "executor/trainer.h"

#include <string>
#include <utility>
#include <vector>

namespace plimsoll {

// Names and values of what the result depends on: version, commit, compiler, BLAS, threads, seed,
// command line.
using Environment = std::vector<std::pair<std::string, std::string>>;

// The document of D6, indented. `resumed_from_step` is null for a run that began anew.
[[nodiscard]] std::string summary_json(const TrainResult& result, const Environment& environment);

}  // namespace plimsoll
