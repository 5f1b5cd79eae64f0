// Files of tokens, held in memory as they lie on disk.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace plimsoll {

class TokenFile {
 public:
  // Reads a file of tokens and checks every one against the vocabulary:
  //   *.bin with a header of 256 little-endian int32: magic 20240520, version 1 (u16 tokens), or
  //         20240801, version 7 (u32 tokens); int32 number of tokens; size 1024 + tokens exactly
  //   *.bin with a .idx of the same name beside it: Megatron's u8, u16 or i32 tokens
  //   *.bin without such a magic: raw little-endian u16
  //   anything else: text, each byte a token
  // Throws Error (exit 2) naming the file and the byte offset of what is wrong.
  TokenFile(const std::string& path, int64_t vocabulary);

  [[nodiscard]] int64_t size() const { return num_tokens_; }
  [[nodiscard]] int32_t operator[](int64_t index) const {
    const char* at = bytes_.data() + first_byte_ + index * token_bytes_;
    if (token_bytes_ == 1) return static_cast<uint8_t>(*at);
    if (token_bytes_ == 2) {
      uint16_t token = 0;
      std::memcpy(&token, at, 2);
      return token;
    }
    int32_t token = 0;
    std::memcpy(&token, at, 4);  // below the vocabulary, so it fits
    return token;
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& format() const { return format_; }
  [[nodiscard]] int64_t resident_bytes() const { return static_cast<int64_t>(bytes_.capacity()); }

 private:
  void read_header();
  void check_vocabulary(int64_t vocabulary) const;

  std::string path_;
  std::string format_;
  std::string bytes_;
  int64_t first_byte_ = 0;
  int64_t token_bytes_ = 1;
  int64_t num_tokens_ = 0;
};

}  // namespace plimsoll
