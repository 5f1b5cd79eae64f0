// What the fuzz targets share: input as text, input as a file, and the rule that they all check.
//
// The rule: a reader of bytes that a user gave either succeeds or throws an Error. Anything else,
// be it another exception, a failed check or a sanitizer's report, ends the process.
#pragma once

#include "base/error.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace plimsoll::fuzz {

inline std::string_view as_text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Runs `read`; an Error is as good as success.
template <typename Read>
void accept_errors(Read&& read) {
  try {
    read();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): refusing the input is right
  }
}

inline void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

// The bytes as a file in memory.
class InputFile {
 public:
  InputFile(const uint8_t* data, size_t size) : fd_(::memfd_create("input.bin", 0)) {
    require(fd_ >= 0 && ::write(fd_, data, size) == static_cast<ssize_t>(size), "a file in memory");
  }
  ~InputFile() { ::close(fd_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace plimsoll::fuzz
