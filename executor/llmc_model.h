// GPT-2 model files of llm.c: 256 int32, then 16 arrays, each stacked over the layers.
#pragma once

#include "executor/file_reader.h"
#include "executor/tensor_file.h"

#include <map>
#include <string>

namespace plimsoll {

// Shows the arrays as tensors with Hugging Face names ("wte.weight", "h.0.attn.c_attn.weight", …).
// The rows that pad the vocabulary are not part of wte.weight. Linear layers lie as (out, in).
class LlmcModelFile final : public TensorFile {
 public:
  // Takes magic 20240326, version 3 (f32). Throws Error (exit 2) naming the file and the offset.
  explicit LlmcModelFile(const std::string& path);

  // Whether the file begins with that magic.
  [[nodiscard]] static bool recognise(const std::string& path);

  [[nodiscard]] const std::string& path() const override { return file_.path(); }
  [[nodiscard]] std::optional<StoredTensor> find(const std::string& name) const override;
  [[nodiscard]] std::vector<std::byte> read(const std::string& name) const override;
  [[nodiscard]] bool linear_is_out_in() const override { return true; }

 private:
  struct Entry {
    Shape shape;
    int64_t offset = 0;  // in the file
  };
  FileReader file_;
  std::map<std::string, Entry> entries_;
};

}  // namespace plimsoll
