// The bytes of token files, and what opening a bad one says.
#pragma once

#include "base/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace plimsoll::test {

inline std::string ints(std::initializer_list<int32_t> values, size_t total_bytes = 0) {
  std::string bytes;
  for (const int32_t value : values) bytes.append(reinterpret_cast<const char*>(&value), 4);
  bytes.resize(std::max(bytes.size(), total_bytes), '\0');
  return bytes;
}

inline std::string u16(const std::vector<uint16_t>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), 2 * tokens.size()};
}

inline std::string with_header(int32_t magic, int32_t version, int32_t count,
                               const std::string& tokens) {
  return ints({magic, version, count}, 1024) + tokens;
}

inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace plimsoll::test
