#include "base/files.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "base/error.h"

namespace plimsoll {

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
  const std::string temporary = path + ".tmp";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const auto fail = [&](const char* action) {
    const std::string reason = std::strerror(errno);
    if (fd >= 0) {
      ::close(fd);
      ::unlink(temporary.c_str());
    }
    return run_failed(fmt::format("cannot {} {}: {}", action, path, reason),
                      "check that the folder exists, is writable and has free space");
  };
  if (fd < 0) throw fail("create");
  size_t done = 0;
  while (done < contents.size()) {
    const ssize_t wrote = ::write(fd, contents.data() + done, contents.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) throw fail("write");
    done += static_cast<size_t>(wrote);
  }
  // Pipes and /dev/full know no fsync; a regular file must reach the disk before the rename.
  if (::fsync(fd) != 0 && errno != EINVAL && errno != EROFS) throw fail("write");
  if (::close(fd) != 0 || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string reason = std::strerror(errno);
    ::unlink(temporary.c_str());
    throw run_failed(fmt::format("cannot write {}: {}", path, reason));
  }
}

std::string sha256_hex(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace plimsoll
