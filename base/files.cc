#include "base/files.h"

#include "base/error.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace plimsoll {

namespace {

bool is_special_file(const std::string& path) {
  struct stat existing {};
  return ::stat(path.c_str(), &existing) == 0 && !S_ISREG(existing.st_mode) &&
         !S_ISDIR(existing.st_mode);
}

// False with errno set when not everything could be written.
bool write_all(int fd, std::string_view contents) {
  while (!contents.empty()) {
    const ssize_t wrote = ::write(fd, contents.data(), contents.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    contents.remove_prefix(static_cast<size_t>(wrote));
  }
  return true;
}

}  // namespace

std::string read_file(const std::string& path, int64_t max_bytes) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    throw bad_input(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  }
  std::string contents;
  std::array<char, 65536> chunk{};
  size_t got = 0;
  while ((got = std::fread(chunk.data(), 1, chunk.size(), file)) > 0) {
    contents.append(chunk.data(), got);
    if (static_cast<int64_t>(contents.size()) > max_bytes) {
      std::fclose(file);
      throw bad_input(fmt::format("{}: larger than {} bytes", path, max_bytes));
    }
  }
  const bool failed = std::ferror(file) != 0;
  const int reason = errno;
  std::fclose(file);
  if (failed) throw bad_input(fmt::format("cannot read {}: {}", path, std::strerror(reason)));
  return contents;
}

void write_file(const std::string& path, std::string_view contents) {
  if (path == "-") {
    if (std::fwrite(contents.data(), 1, contents.size(), stdout) != contents.size() ||
        std::fflush(stdout) != 0) {
      throw run_failed(fmt::format("cannot write to stdout: {}", std::strerror(errno)));
    }
    return;
  }
  // A device or a pipe is written to, not replaced.
  const bool in_place = is_special_file(path);
  const std::string target = in_place ? path : path + ".tmp";
  const int fd = ::open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const auto fail = [&](const char* action) {
    const std::string reason = std::strerror(errno);
    if (fd >= 0 && !in_place) ::unlink(target.c_str());
    return run_failed(fmt::format("cannot {} {}: {}", action, path, reason),
                      "check that the folder exists, is writable and has free space");
  };
  if (fd < 0) throw fail("create");
  // Pipes and devices know no fsync; a regular file must reach the disk before the rename.
  const bool written = write_all(fd, contents) &&
                       (::fsync(fd) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP);
  const int reason = errno;
  const bool closed = ::close(fd) == 0;
  if (!written) errno = reason;
  if (!written || !closed) throw fail("write");
  if (!in_place && std::rename(target.c_str(), path.c_str()) != 0) throw fail("write");
}

std::string sha256_hex(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace plimsoll
