// JSON from a user, and JSON with a user's words in it.
//
// The library throws of its own, on syntax and on bytes that are no UTF-8, and recurses into nested
// values. Here a mistake is an Error, and depth is bounded so that no text overflows the stack.
#pragma once

#include "base/error.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace plimsoll {

inline constexpr int kMaxJsonDepth = 64;

// Parses `text`; an Error (exit 2) names `file`, and the place of a mistake in it.
template <typename Json>
[[nodiscard]] Json parse_json(std::string_view text, std::string_view file) {
  using Event = typename Json::parse_event_t;
  const auto check_depth = [&](int depth, Event event, Json& /*parsed*/) {
    if (depth > kMaxJsonDepth && (event == Event::object_start || event == Event::array_start)) {
      throw bad_input(fmt::format("{}: nested deeper than {} levels", file, kMaxJsonDepth));
    }
    return true;
  };
  try {
    return Json::parse(text, check_depth);
  } catch (const nlohmann::json::exception& error) {
    throw bad_input(fmt::format("{}: not valid JSON: {}", file, error.what()));
  }
}

// The value as text, on one line when `indent` is negative. A path or a name need not be UTF-8:
// what is not becomes U+FFFD.
template <typename Json>
[[nodiscard]] std::string json_text(const Json& value, int indent = 2) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace plimsoll
