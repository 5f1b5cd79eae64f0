#include "base/units.h"

#include "base/error.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace plimsoll {

namespace {

// Multiplier of a unit name, or 0 when it is not known.
double unit_bytes(std::string_view unit) {
  if (unit.empty() || unit == "B") return 1;
  if (unit == "KiB") return 0x1p10;
  if (unit == "MiB") return 0x1p20;
  if (unit == "GiB") return 0x1p30;
  if (unit == "TiB") return 0x1p40;
  if (unit == "kB" || unit == "KB") return 1e3;
  if (unit == "MB") return 1e6;
  if (unit == "GB") return 1e9;
  if (unit == "TB") return 1e12;
  return 0;
}

std::string three_digits(double value) {
  if (value >= 99.95) return fmt::format("{:.0f}", value);
  if (value >= 9.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

}  // namespace

int64_t parse_size(std::string_view text, std::string_view what) {
  const auto fail = [&](std::string_view why) {
    return bad_input(fmt::format("{}: '{}' {}", what, text, why),
                     "give bytes, or a number with KiB, MiB, GiB, kB, MB or GB, e.g. 512MiB");
  };
  int64_t whole = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (error == std::errc{} && end == text.data() + text.size()) {
    if (whole <= 0) throw fail("is not a positive size");
    return whole;  // plain bytes keep all 63 bits, which a double would not
  }
  double number = 0;
  const auto [stop, bad] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (bad != std::errc{}) throw fail("is not a size");
  std::string_view unit = text.substr(static_cast<size_t>(stop - text.data()));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  const double multiplier = unit_bytes(unit);
  if (multiplier == 0) throw fail("has an unknown unit");
  const double bytes = number * multiplier;
  if (!(bytes >= 1)) throw fail("is not a positive size");
  if (bytes >= 0x1p63) throw fail("is larger than 2^63 bytes");
  return static_cast<int64_t>(bytes);
}

std::string format_bytes(int64_t bytes) {
  const double value = std::abs(static_cast<double>(bytes));
  const char* sign = bytes < 0 ? "-" : "";
  if (value < 1024) return fmt::format("{}{:.0f} B", sign, value);
  if (value < 0x1p20) return fmt::format("{}{} KiB", sign, three_digits(value * 0x1p-10));
  if (value < 0x1p30) return fmt::format("{}{} MiB", sign, three_digits(value * 0x1p-20));
  return fmt::format("{}{} GiB", sign, three_digits(value * 0x1p-30));
}

std::string format_count(int64_t value) {
  std::string digits = std::to_string(value);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > (value < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<size_t>(at), 1, ',');
  }
  return digits;
}

std::string format_seconds(double seconds) {
  if (seconds >= 1) return three_digits(seconds) + " s";
  if (seconds >= 1e-3) return three_digits(seconds * 1e3) + " ms";
  return three_digits(seconds * 1e6) + " us";
}

}  // namespace plimsoll
