// Whole files: read with a clear error, written beside and renamed so that nothing is ever lost.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

// The file's bytes; throws Error (exit 2) when it cannot be read or exceeds `max_bytes`.
[[nodiscard]] std::string read_file(const std::string& path, int64_t max_bytes = int64_t{1} << 31);

// Writes to a temporary name beside `path`, fsyncs and renames. Throws Error (exit 4) on a full
// disk or any other failure, leaving an old file of that name as it was. A device or a pipe is
// written to as it is; "-" writes to stdout.
void write_file(const std::string& path, std::string_view contents);

// Lower-case hex SHA-256 of the bytes.
[[nodiscard]] std::string sha256_hex(std::string_view bytes);

}  // namespace plimsoll
