#include "core/base/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace ringscope {

// Without O_NONBLOCK, opening a fifo would wait for its writer.
InputFile::InputFile(const std::string& path, std::string kind)
    : kind_(std::move(kind)), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) fail(errno);
  struct stat facts {};
  if (::fstat(descriptor_, &facts) != 0) {
    const int error = errno;
    ::close(descriptor_);
    fail(error);
  }
  if (!S_ISREG(facts.st_mode)) {
    ::close(descriptor_);
    throw InputError(fmt::format("{}; a {} accepted",
                                 S_ISDIR(facts.st_mode) ? "is a directory" : "not a regular file",
                                 kind_));
  }
  size_ = facts.st_size;
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(char* to, Index count, Index offset) const {
  for (Index done = 0; done < count;) {
    const ssize_t got =
        ::pread(descriptor_, to + done, static_cast<std::size_t>(count - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(errno);
    if (got == 0) throw InputError("became shorter while it was read; a finished file accepted");
    done += got;
  }
}

void InputFile::fail(int error) const {
  throw InputError(fmt::format("{}; a readable {} accepted", std::strerror(error), kind_));
}

std::string about_file(const std::string& path, const std::string& complaint) {
  return (path.empty() ? "''" : path) + ": " + complaint;
}

}  // namespace ringscope
