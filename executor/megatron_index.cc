#include "executor/megatron_index.h"

#include "base/error.h"
#include "base/files.h"

#include <cstring>
#include <string_view>

namespace plimsoll {

namespace {

constexpr int64_t kMostBytes = int64_t{1} << 36;
constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr int64_t kVersionAt = 9, kTypeAt = 17, kSequencesAt = 18, kDocumentsAt = 26;
constexpr int64_t kHeaderBytes = 34;

// The arrays begin at no multiple of their elements' size.
template <class T>
T read_at(const std::string& bytes, int64_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

int64_t bytes_of_type(uint8_t code) {
  switch (code) {
    case 1:
      return 1;  // u8
    case 4:
      return 4;  // i32
    case 8:
      return 2;  // u16
    default:
      return 0;
  }
}

// Length and place of each sequence; returns the number of tokens.
int64_t check_sequences(const std::string& path, const std::string& bytes, int64_t sequences,
                        int64_t token_bytes, int64_t data_bytes) {
  const int64_t pointers = kHeaderBytes + 4 * sequences;
  int64_t tokens = 0;
  for (int64_t s = 0; s < sequences; ++s) {
    const auto pointer = read_at<int64_t>(bytes, pointers + 8 * s);
    if (pointer != tokens * token_bytes) {
      throw bad_input(fmt::format("{}: offset {}: sequence {} begins at byte {} of the tokens, "
                                  "those before it end at {}",
                                  path, pointers + 8 * s, s, pointer, tokens * token_bytes),
                      "write the data set anew, its sequences one behind the other");
    }
    const auto length = read_at<int32_t>(bytes, kHeaderBytes + 4 * s);
    if (length < 0) {
      throw bad_input(fmt::format("{}: offset {}: sequence {} has {} tokens", path,
                                  kHeaderBytes + 4 * s, s, length));
    }
    tokens += length;
    // At once, so that no sum of lengths overflows.
    if (tokens > data_bytes / token_bytes) {
      throw bad_input(fmt::format("{}: offset {}: sequence {} ends at byte {} of the tokens, the "
                                  ".bin has {}",
                                  path, kHeaderBytes + 4 * s, s, tokens * token_bytes, data_bytes),
                      "the .bin is cut off, or the index is another's");
    }
  }
  return tokens;
}

void check_documents(const std::string& path, const std::string& bytes, int64_t sequences,
                     int64_t documents) {
  const int64_t begin = kHeaderBytes + 12 * sequences;
  int64_t previous = 0;
  for (int64_t d = 0; d < documents; ++d) {
    const auto first = read_at<int64_t>(bytes, begin + 8 * d);
    const bool is_end = d == documents - 1;
    if (first < previous || first > sequences || (d == 0 && first != 0) ||
        (is_end && first != sequences)) {
      throw bad_input(
          fmt::format("{}: offset {}: entry {} of {} in the list of documents is {}, "
                      "which must rise from 0 to {} sequences",
                      path, begin + 8 * d, d, documents, first, sequences));
    }
    previous = first;
  }
}

}  // namespace

MegatronIndex read_megatron_index(const std::string& path, int64_t data_bytes) {
  const std::string bytes = read_file(path, kMostBytes);
  const auto size = static_cast<int64_t>(bytes.size());
  if (!bytes.starts_with(kMagic)) {
    throw bad_input(fmt::format("{}: offset 0: no index of a Megatron data set", path),
                    "a .idx beside a .bin is taken for its index: move it away if it is not");
  }
  if (size < kHeaderBytes) {
    throw bad_input(
        fmt::format("{}: offset {}: ends inside its header of {} bytes", path, size, kHeaderBytes),
        "the file is cut off");
  }
  const auto version = read_at<uint64_t>(bytes, kVersionAt);
  if (version != 1) {
    throw bad_input(fmt::format("{}: offset {}: version {}, but version 1 is what is known", path,
                                kVersionAt, version));
  }
  const auto code = read_at<uint8_t>(bytes, kTypeAt);
  const int64_t token_bytes = bytes_of_type(code);
  if (token_bytes == 0) {
    throw bad_input(fmt::format("{}: offset {}: tokens of type {}", path, kTypeAt, code),
                    "use u8 (1), i32 (4) or u16 (8)");
  }
  const auto sequences = read_at<uint64_t>(bytes, kSequencesAt);
  const auto documents = read_at<uint64_t>(bytes, kDocumentsAt);
  const auto rest = static_cast<uint64_t>(size - kHeaderBytes);
  // The counts are bounded by the file before anything is computed from them.
  const bool is_possible = sequences <= rest / 12 && documents <= rest / 8;
  const uint64_t arrays = is_possible ? 12 * sequences + 8 * documents : 0;
  if (!is_possible || (arrays != rest && arrays + sequences != rest)) {
    throw bad_input(fmt::format("{}: offset {}: {} sequences and {} entries of documents do not "
                                "fill the file's {} bytes",
                                path, kSequencesAt, sequences, documents, size),
                    "the file is cut off or has been added to");
  }
  const auto count = static_cast<int64_t>(sequences);
  const int64_t tokens = check_sequences(path, bytes, count, token_bytes, data_bytes);
  check_documents(path, bytes, count, static_cast<int64_t>(documents));
  if (tokens * token_bytes != data_bytes) {
    throw bad_input(fmt::format("{}: offset {}: the lengths add up to {} bytes of tokens, the .bin "
                                "has {}",
                                path, kHeaderBytes, tokens * token_bytes, data_bytes),
                    "the .bin has been added to, or the index is another's");
  }
  return {.token_bytes = token_bytes, .num_tokens = tokens};
}

}  // namespace plimsoll
