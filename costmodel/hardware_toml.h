// Reading of hardware figures from TOML, the embedded catalogue's and a user's alike.
//
// Every key is known and every value is checked; an Error names the file, line and column. Only
// costmodel/ includes this.
#pragma once

#include "costmodel/hardware.h"
#include "costmodel/toml_read.h"

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::internal {

// Text of costmodel/hardware.toml; the build turns the file into this function.
[[nodiscard]] std::string_view embedded_hardware_toml();

// Whether `key` is a figure of a device.
[[nodiscard]] bool is_hardware_key(std::string_view key);

// Overwrites what the table's keys name. An unknown key, a wrong type and a value out of range are
// Errors (exit 2).
void apply_hardware_table(const toml::table& table, std::string_view file, Hardware& hardware);

// The tables of a catalogue file, each on top of its [defaults].
[[nodiscard]] std::vector<Hardware> parse_catalogue(std::string_view text, std::string_view file);

}  // namespace plimsoll::internal
