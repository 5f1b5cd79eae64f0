// Checks that a call throws an Error of a code, whose message and hint hold given words.
#pragma once

#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace plimsoll {

template <typename Call>
void expect_error(Call&& call, ExitCode code, const std::string& message,
                  const std::string& hint = "") {
  try {
    call();
    ADD_FAILURE() << "no error; expected '" << message << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_THAT(error.what(), testing::HasSubstr(message));
    EXPECT_THAT(error.hint(), testing::HasSubstr(hint));
  }
}

}  // namespace plimsoll
