// The safetensors format: 8 bytes of header length, a JSON header, the tensors.
//
// The reader trusts nothing: every number of the header is checked against the file before it is
// used, and the tensors must tile the data without hole or overlap.
#pragma once

#include "executor/file_reader.h"
#include "executor/tensor_file.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace plimsoll {

class SafetensorsFile final : public TensorFile {
 public:
  // Reads and checks the header. Throws Error (exit 2) naming the file and what is wrong.
  explicit SafetensorsFile(const std::string& path);

  [[nodiscard]] const std::string& path() const override { return file_.path(); }
  [[nodiscard]] std::optional<StoredTensor> find(const std::string& name) const override;
  [[nodiscard]] std::vector<std::byte> read(const std::string& name) const override;
  [[nodiscard]] bool linear_is_out_in() const override { return false; }

  [[nodiscard]] std::vector<std::string> names() const;

 private:
  struct Entry {
    StoredTensor tensor;
    int64_t begin = 0;  // from the start of the data
    int64_t end = 0;
  };
  void check_tiling() const;

  FileReader file_;
  int64_t data_offset_ = 0;
  std::map<std::string, Entry> entries_;
};

struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;  // in the file
  const std::byte* data = nullptr;
  bool transpose = false;  // `data` has two dimensions, in the other order
  // Where `data` is null: writes the whole tensor, in the order of `data`, when its turn comes.
  std::function<void(std::byte* whole)> assemble = {};
};

// What was written, for a manifest.
struct WrittenFile {
  int64_t bytes = 0;
  std::string sha256;
};

// Writes the tensors in the order given and syncs. Throws Error (exit 4) on a full disk.
WrittenFile write_safetensors(const std::string& path, const std::vector<TensorToWrite>& tensors,
                              const std::map<std::string, std::string>& metadata);

}  // namespace plimsoll
