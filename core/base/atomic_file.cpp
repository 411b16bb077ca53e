// The temporary file gets its name and mode by open(O_CREAT | O_EXCL), so the process's umask
// applies as for any other file and nobody else's file can be hit.
#include "core/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "core/base/error.h"

namespace ringscope {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw InputError(path + ": " + why +
                   "; accepted: a file in an existing folder that can be written to");
}

[[noreturn]] void fail(const std::string& path, int error) {
  throw RunError(path + ": writing failed: " + std::strerror(error));
}

// Which of the two kinds of failure it is when a file can't be opened: a place that was badly
// chosen, or resources that ran out.
[[noreturn]] void fail_to_open(const std::string& path, int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EIO:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      fail(path, error);
    default:
      refuse(path, std::strerror(error));
  }
}

// What to write and how.
struct Target {
  std::string path;            // links followed
  std::optional<mode_t> mode;  // of the file that will be replaced
  bool direct = false;         // a device or fifo: written to as it is, never replaced
};

Target target_of(const std::string& path) {
  if (path.empty()) refuse("''", "the path is empty");
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0) {
    if (S_ISDIR(facts.st_mode)) refuse(path, "is a directory");
    // Replacing a file needs no permission to write to it, but its owner said no.
    if (::access(path.c_str(), W_OK) != 0) fail_to_open(path, errno);
    if (!S_ISREG(facts.st_mode)) return {path, {}, true};
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    struct stat real_facts {};
    // A link under /proc (as /dev/stdout is) may lead to a file that no path leads to.
    if (error || ::stat(real.c_str(), &real_facts) != 0 || real_facts.st_ino != facts.st_ino ||
        real_facts.st_dev != facts.st_dev)
      return {path, {}, true};
    return {real.string(), facts.st_mode & 07777, false};
  }
  if (errno != ENOENT) fail_to_open(path, errno);
  // Nothing there yet, or a link (or a chain of them) to nothing yet.
  fs::path place = path;
  std::error_code error;
  for (int links = 0; fs::is_symlink(fs::symlink_status(place, error)); ++links) {
    if (links == 40) fail_to_open(path, ELOOP);
    const fs::path next = fs::read_symlink(place, error);
    if (error) fail_to_open(path, error.value());
    place = place.parent_path() / next;
  }
  if (!place.has_filename()) refuse(path, "names a folder");
  return {place.string(), {}, false};
}

// Opens a new file in `folder`, sets `name` to it.
int open_new(const fs::path& folder, std::string& name) {
  static std::atomic<unsigned> counter{0};
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const std::string leaf =
        ".ringscope-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp";
    name = (folder / leaf).string();
    const int descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0 || errno != EEXIST) return descriptor;
  }
  errno = EEXIST;
  return -1;
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  const Target target = target_of(path_);
  target_ = target.path;
  int descriptor = -1;
  if (target.direct) {
    descriptor = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) fail_to_open(path_, errno);
  } else {
    descriptor = open_new(fs::path(target_).parent_path(), temporary_);
    if (descriptor < 0) {
      temporary_.clear();
      fail_to_open(path_, errno);
    }
    if (target.mode.has_value() && ::fchmod(descriptor, *target.mode) != 0) {
      const int error = errno;
      ::close(descriptor);
      discard();
      fail(path_, error);
    }
  }
  file_ = ::fdopen(descriptor, "wb");
  if (file_ == nullptr) {
    const int error = errno;
    ::close(descriptor);
    discard();
    fail(path_, error);
  }
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (file_ != nullptr) std::fclose(std::exchange(file_, nullptr));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

void AtomicFile::discard_and_fail(int error) {
  discard();
  fail(path_, error);
}

void AtomicFile::write(std::string_view bytes) {
  if (file_ == nullptr) fail(path_, EBADF);
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) discard_and_fail(errno);
}

void AtomicFile::sync() {
  if (file_ == nullptr) fail(path_, EBADF);
  if (std::fflush(file_) != 0) discard_and_fail(errno);
  // Devices, pipes and some file systems have nothing to synchronise.
  if (::fsync(::fileno(file_)) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP)
    discard_and_fail(errno);
}

void AtomicFile::commit() {
  sync();
  if (std::fclose(std::exchange(file_, nullptr)) != 0) discard_and_fail(errno);
  if (temporary_.empty()) return;
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) discard_and_fail(errno);
  temporary_.clear();
}

void require_writable(const std::string& path) {
  // Opening a fifo would wait for its reader; for what is written to directly, permission is all
  // there is.
  if (!target_of(path).direct) AtomicFile probe(path);
}

}  // namespace ringscope
