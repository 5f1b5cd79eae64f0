// The index beside a Megatron file of tokens: PREFIX.idx of PREFIX.bin.
//
// Little-endian and not aligned: 9 bytes of magic, u64 version 1, u8 type of the tokens, u64
// sequences S, u64 entries D of the document list, then i32 length[S] in tokens, i64 pointer[S] in
// bytes of the .bin, i64 document[D] (first sequence of each document, and S at the end), and,
// where sequences have modes, i8 mode[S].
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll {

struct MegatronIndex {
  int64_t token_bytes = 0;  // 1 and 2: unsigned; 4: signed
  int64_t num_tokens = 0;
};

// Reads the index at `path` of a .bin of `data_bytes` bytes. Sequences must follow one another
// without a hole to the end of the .bin. Throws Error (exit 2) naming the file and the byte offset
// of what is wrong.
[[nodiscard]] MegatronIndex read_megatron_index(const std::string& path, int64_t data_bytes);

}  // namespace plimsoll
