// Errors of the two kinds that exist here.
//
// `Error` is what a user can cause: it says what is wrong and where, what to do about it, and which
// exit code the binary ends with; only `cli/` catches it. `PLIMSOLL_CHECK` is for a programmer's
// mistake: it prints the values and aborts.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace plimsoll {

// Exit codes of the binary; the numbers are part of its interface.
enum class ExitCode : int {
  kDone = 0,
  kBadInput = 2,    // the input is wrong, or is planned but cannot be run
  kInfeasible = 3,  // nothing fits
  kRunFailed = 4,   // a run failed: full disk, dead rank, NaN
  kInterrupted = 130,
  kTerminated = 143,
};

class Error : public std::runtime_error {
 public:
  // `message` says what is wrong and where; `hint` what to do (may be empty).
  Error(ExitCode code, const std::string& message, std::string hint = "")
      : std::runtime_error(message), code_(code), hint_(std::move(hint)) {}

  [[nodiscard]] ExitCode code() const { return code_; }
  [[nodiscard]] const std::string& hint() const { return hint_; }

 private:
  ExitCode code_;
  std::string hint_;
};

// Shorthands for the two most frequent kinds.
[[nodiscard]] inline Error bad_input(const std::string& message, std::string hint = "") {
  return {ExitCode::kBadInput, message, std::move(hint)};
}
[[nodiscard]] inline Error run_failed(const std::string& message, std::string hint = "") {
  return {ExitCode::kRunFailed, message, std::move(hint)};
}

namespace internal {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& values);
}  // namespace internal

}  // namespace plimsoll

// PLIMSOLL_CHECK(condition, "format", values…): aborts with the values when `condition` is false.
#define PLIMSOLL_CHECK(condition, ...)                                   \
  do {                                                                   \
    if (!(condition)) {                                                  \
      ::plimsoll::internal::check_failed(__FILE__, __LINE__, #condition, \
                                         ::fmt::format(__VA_ARGS__));    \
    }                                                                    \
  } while (false)
