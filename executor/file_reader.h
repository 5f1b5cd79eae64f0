// Reads ranges of a file with clear errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace plimsoll {

class FileReader {
 public:
  // Throws Error (exit 2) when the file cannot be opened or is no regular file.
  explicit FileReader(std::string path);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int64_t size() const { return size_; }
  // Reads exactly [offset, offset + bytes). Throws Error (exit 2) naming the offset.
  void read(int64_t offset, int64_t bytes, void* out) const;

 private:
  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

}  // namespace plimsoll
