#include "executor/durable_file.h"

#include "base/error.h"
#include "executor/file_reader.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

namespace plimsoll {

struct DurableFile::Hash {
  Hash() : context(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context, EVP_sha256(), nullptr); }
  ~Hash() { EVP_MD_CTX_free(context); }
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;

  void add(const void* data, int64_t bytes) {
    EVP_DigestUpdate(context, data, static_cast<size_t>(bytes));
  }
  [[nodiscard]] std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int size = 0;
    EVP_DigestFinal_ex(context, digest.data(), &size);
    std::string text;
    for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
    return text;
  }

  EVP_MD_CTX* context;
};

DurableFile::DurableFile(std::string path)
    : path_(std::move(path)), hash_(std::make_unique<Hash>()) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("create");
}

DurableFile::~DurableFile() {
  if (fd_ >= 0) ::close(fd_);
}

void DurableFile::write(const void* data, int64_t bytes) {
  hash_->add(data, bytes);
  bytes_ += bytes;
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t wrote = ::write(fd_, from, static_cast<size_t>(bytes));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail("write");
    from += wrote;
    bytes -= wrote;
  }
}

DurableFile::Written DurableFile::finish() {
  // A pipe or a device knows no fsync.
  if (::fsync(fd_) != 0 && errno != EINVAL && errno != EROFS) fail("write");
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) fail("close");
  return {bytes_, hash_->hex()};
}

void DurableFile::fail(const char* action) const {
  throw run_failed(fmt::format("cannot {} {}: {}", action, path_, std::strerror(errno)),
                   "check that the folder exists, is writable and has free space");
}

std::string sha256_of_file(const std::string& path) {
  const FileReader file(path);
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> owner(context, EVP_MD_CTX_free);
  EVP_DigestInit_ex(context, EVP_sha256(), nullptr);
  std::vector<char> chunk(1 << 20);
  for (int64_t at = 0; at < file.size();) {
    const int64_t width = std::min<int64_t>(static_cast<int64_t>(chunk.size()), file.size() - at);
    file.read(at, width, chunk.data());
    EVP_DigestUpdate(context, chunk.data(), static_cast<size_t>(width));
    at += width;
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(context, digest.data(), &size);
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

void sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool failed = fd < 0 || (::fsync(fd) != 0 && errno != EINVAL && errno != EROFS);
  const int reason = errno;
  if (fd >= 0) ::close(fd);
  if (failed) throw run_failed(fmt::format("cannot sync {}: {}", path, std::strerror(reason)));
}

}  // namespace plimsoll
