// A file that is on the disk when `finish` returns, with the SHA-256 of what was written.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace plimsoll {

class DurableFile {
 public:
  // Creates or empties the file. This and the other members throw Error (exit 4) on a full disk or
  // any other failure.
  explicit DurableFile(std::string path);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(const void* data, int64_t bytes);
  void write(std::string_view text) { write(text.data(), static_cast<int64_t>(text.size())); }

  struct Written {
    int64_t bytes = 0;
    std::string sha256;  // lower-case hex
  };
  // Syncs and closes.
  Written finish();

 private:
  [[noreturn]] void fail(const char* action) const;

  struct Hash;
  std::string path_;
  int fd_ = -1;
  int64_t bytes_ = 0;
  std::unique_ptr<Hash> hash_;
};

// SHA-256 of a file, read piece by piece. Throws Error (exit 2) when it cannot be read.
[[nodiscard]] std::string sha256_of_file(const std::string& path);

// Makes a rename or creation inside the folder last. Throws Error (exit 4).
void sync_folder(const std::string& path);

}  // namespace plimsoll
