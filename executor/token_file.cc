#include "executor/token_file.h"

#include "base/error.h"
#include "base/files.h"
#include "executor/megatron_index.h"

#include <algorithm>
#include <bit>
#include <filesystem>

namespace plimsoll {

namespace {

// Tokens are read as they lie in the file.
static_assert(std::endian::native == std::endian::little);

constexpr int64_t kHeaderBytes = 1024;
constexpr int64_t kMostBytes = int64_t{1} << 40;

constexpr int32_t kMagicU16 = 20240520;
constexpr int32_t kMagicU32 = 20240801;

int32_t read_int(const std::string& bytes, size_t offset) {
  int32_t value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

// What another file with the same kind of header is, or nothing.
std::string_view other_kind(int32_t magic) {
  switch (magic) {
    case 20240326:
      return "a GPT-2 model";
    case 20240327:
      return "a debug state";
    case 20240328:
      return "a tokenizer";
    case 20240522:
      return "an evaluation set";
    case 20240527:
      return "an optimizer state";
    case 20240803:
      return "a Llama model";
    default:
      return {};
  }
}

}  // namespace

TokenFile::TokenFile(const std::string& path, int64_t vocabulary)
    : path_(path), bytes_(read_file(path, kMostBytes)) {
  if (path.ends_with(".bin")) {
    const std::string index = path.substr(0, path.size() - 4) + ".idx";
    if (std::filesystem::exists(index)) {
      const auto found = read_megatron_index(index, static_cast<int64_t>(bytes_.size()));
      format_ = fmt::format("{}-byte tokens with index", found.token_bytes);
      token_bytes_ = found.token_bytes;
      num_tokens_ = found.num_tokens;
    } else {
      read_header();
    }
  } else {
    format_ = "bytes";
    num_tokens_ = static_cast<int64_t>(bytes_.size());
  }
  if (num_tokens_ == 0) throw bad_input(fmt::format("{}: no tokens", path));
  check_vocabulary(vocabulary);
}

void TokenFile::read_header() {
  const auto size = static_cast<int64_t>(bytes_.size());
  const int32_t magic = size >= 4 ? read_int(bytes_, 0) : 0;
  if (const std::string_view kind = other_kind(magic); !kind.empty()) {
    throw bad_input(fmt::format("{}: offset 0: magic {} is {}, not tokens", path_, magic, kind));
  }
  if (magic != kMagicU16 && magic != kMagicU32) {
    format_ = "raw u16";
    token_bytes_ = 2;
    num_tokens_ = size / 2;
    if (size % 2 != 0) {
      throw bad_input(
          fmt::format("{}: offset {}: half a token at the end of raw u16 tokens", path_, size - 1),
          "the file is cut off, or it is no file of tokens");
    }
    return;
  }
  if (size < kHeaderBytes) {
    throw bad_input(fmt::format("{}: offset {}: ends inside its header of {} bytes", path_, size,
                                kHeaderBytes));
  }
  const int32_t expected_version = magic == kMagicU16 ? 1 : 7;
  const int32_t version = read_int(bytes_, 4);
  if (version != expected_version) {
    throw bad_input(
        fmt::format("{}: offset 4: version {}, but version {} is what is known of magic {}", path_,
                    version, expected_version, magic));
  }
  token_bytes_ = magic == kMagicU16 ? 2 : 4;
  format_ = magic == kMagicU16 ? "u16 with header" : "u32 with header";
  num_tokens_ = read_int(bytes_, 8);
  first_byte_ = kHeaderBytes;
  if (num_tokens_ < 0) {
    throw bad_input(fmt::format("{}: offset 8: {} tokens", path_, num_tokens_));
  }
  const int64_t expected = kHeaderBytes + num_tokens_ * token_bytes_;
  if (size != expected) {
    throw bad_input(
        fmt::format("{}: offset {}: the header promises {} tokens, {} bytes in all, the "
                    "file has {}",
                    path_, std::min(size, expected), num_tokens_, expected, size),
        "the file is cut off or has been added to");
  }
}

void TokenFile::check_vocabulary(int64_t vocabulary) const {
  for (int64_t i = 0; i < num_tokens_; ++i) {
    // A u32 token beyond 2^31 reads as negative.
    const int32_t token = (*this)[i];
    if (token >= 0 && token < vocabulary) continue;
    throw bad_input(
        fmt::format("{}: offset {}: token {} is outside the model's vocabulary of {}", path_,
                    first_byte_ + i * token_bytes_, static_cast<uint32_t>(token), vocabulary),
        token_bytes_ == 1 ? "text is read as bytes: use a model with a vocabulary of 256, or give "
                            "a .bin of tokens"
                          : "use the tokenizer of this model");
  }
}

}  // namespace plimsoll
