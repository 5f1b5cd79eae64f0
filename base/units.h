// Sizes and numbers as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

// Parses bytes, or a number with KiB, MiB, GiB, TiB or kB, MB, GB, TB ("1.5GiB", "80 GB", "4096").
// Throws Error (exit 2) naming `what` when the text is not a positive size below 2^63.
[[nodiscard]] int64_t parse_size(std::string_view text, std::string_view what);

// "1.50 GiB", "12.0 MiB", "640 B": three significant digits, binary units.
[[nodiscard]] std::string format_bytes(int64_t bytes);

// "1,234,567"
[[nodiscard]] std::string format_count(int64_t value);

// "1.94 s", "12.3 ms", "45 us": three significant digits.
[[nodiscard]] std::string format_seconds(double seconds);

}  // namespace plimsoll
