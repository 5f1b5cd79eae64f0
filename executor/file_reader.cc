#include "executor/file_reader.h"

#include "base/error.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace plimsoll {

FileReader::FileReader(std::string path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) throw bad_input(fmt::format("cannot read {}: {}", path_, std::strerror(errno)));
  struct stat status {};
  const bool known = ::fstat(fd_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    ::close(fd_);
    throw bad_input(fmt::format("cannot read {}: not a regular file", path_));
  }
  size_ = status.st_size;
}

FileReader::~FileReader() { ::close(fd_); }

void FileReader::read(int64_t offset, int64_t bytes, void* out) const {
  auto* to = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got = ::pread(fd_, to, static_cast<size_t>(bytes), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw bad_input(
          fmt::format("cannot read {} at offset {}: {}", path_, offset, std::strerror(errno)));
    }
    if (got == 0) {
      throw bad_input(
          fmt::format("{}: ends at offset {}, {} bytes too early", path_, offset, bytes));
    }
    to += got;
    offset += got;
    bytes -= got;
  }
}

}  // namespace plimsoll
