// What this binary is, for --version and the record of a run.
#pragma once

namespace plimsoll::cli {

inline constexpr const char* kVersion = "0.1.0";
// The commit it was configured at, "unknown" outside a checkout.
extern const char* const kCommit;
// "GNU 12.2.0, Release"
extern const char* const kCompiler;

}  // namespace plimsoll::cli
