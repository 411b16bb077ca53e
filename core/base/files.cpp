#include "core/base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

namespace ringscope {

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

// O_NONBLOCK is set because opening a fifo would otherwise wait for its writer.
InputFile::InputFile(const std::string& path, std::string kind)
    : kind_(std::move(kind)), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  struct stat facts {};
  if (!descriptor_.is_open() || ::fstat(descriptor_.get(), &facts) != 0) fail(errno);
  if (!S_ISREG(facts.st_mode))
    throw InputError(fmt::format("{}; a {} accepted",
                                 S_ISDIR(facts.st_mode) ? "is a directory" : "not a regular file",
                                 kind_));
  size_ = facts.st_size;
}

void InputFile::read(char* to, Index count, Index offset) const {
  for (Index done = 0; done < count;) {
    const ssize_t got = ::pread(descriptor_.get(), to + done,
                                static_cast<std::size_t>(count - done), offset + done);
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

std::string read_file(const std::string& path, const std::string& kind, Index most) {
  return with_path_in_errors(path, [&] {
    const InputFile file(path, kind);
    if (file.size() > most)
      throw InputError(fmt::format("{} bytes in it; accepted: at most {}", file.size(), most));
    std::string bytes(file.size(), '\0');
    file.read(bytes.data(), file.size(), 0);
    return bytes;
  });
}

std::string start_of_file(const std::string& path, Index most) {
  return with_path_in_errors(path, [&] {
    const InputFile file(path, "recorded trace");
    std::string start(static_cast<std::size_t>(std::min(file.size(), most)), ' ');
    file.read(start.data(), static_cast<Index>(start.size()), 0);
    return start;
  });
}

std::vector<std::string> files_in(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    const auto begin = static_cast<std::ptrdiff_t>(files.size());
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(path, error))
      if (entry.is_regular_file(error) && !entry.path().string().ends_with(".notes.json"))
        files.push_back(entry.path().string());
    std::sort(files.begin() + begin, files.end());
    if (files.begin() + begin == files.end())
      throw InputError(path + ": no files in this folder; recordings accepted");
  }
  return files;
}

// ---
// Writing. The temporary file comes from open(O_TMPFILE) and linkat, or else from open(O_CREAT |
// O_EXCL), so the process's umask applies and no other process's file can be hit.

namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw InputError(path + ": " + why +
                   "; accepted: a file in an existing folder that can be written to");
}

[[noreturn]] void fail(const std::string& path, int error) {
  throw RunError(path + ": writing failed: " + std::strerror(error));
}

// Throw the failure that fits a file that can't be opened: RunError if resources ran out,
// InputError if the place was badly chosen.
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

constexpr char kStdout[] = "/dev/stdout";

// The file to write, and how to write it.
struct Target {
  std::string path;            // after following links
  std::optional<mode_t> mode;  // of the file that will be replaced
  bool direct = false;         // a device or fifo, which is written to and never replaced
};

Target target_of(const std::string& path) {
  if (path.empty()) refuse("''", "the path is empty");
  // It is open already. This user may be forbidden to open it again: as another one than the shell's.
  if (path == kStdout) {
    const int flags = ::fcntl(STDOUT_FILENO, F_GETFL);
    if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY) return {path, {}, true};
  }
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0) {
    if (S_ISDIR(facts.st_mode)) refuse(path, "is a directory");
    // Replacing a file needs no permission to write to it, but its owner has forbidden writing.
    if (::access(path.c_str(), W_OK) != 0) fail_to_open(path, errno);
    if (!S_ISREG(facts.st_mode)) return {path, {}, true};
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    // A link under /proc (such as /dev/stdout) may lead to a file that has no path because it was
    // deleted. One that another process replaces at this moment has one.
    const bool is_deleted =
        facts.st_nlink == 0 && ::stat(path.c_str(), &facts) == 0 && facts.st_nlink == 0;
    if (error || is_deleted) return {path, {}, true};
    return {real.string(), facts.st_mode & 07777, false};
  }
  if (errno != ENOENT) fail_to_open(path, errno);
  // Nothing is there yet, or a link (or a chain of links) leads to nothing yet.
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

// Try names for a temporary file in `folder` until make(name) does not fail with EEXIST. Set `name`
// to the last one tried and return make's result.
template <class Make>
int make_with_new_name(const fs::path& folder, std::string& name, Make&& make) {
  static std::atomic<unsigned> counter{0};
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const std::string leaf =
        ".ringscope-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp";
    name = (folder / leaf).string();
    const int made = make(name.c_str());
    if (made != -1 || errno != EEXIST) return made;
  }
  errno = EEXIST;
  return -1;
}

std::string path_of_descriptor(int descriptor) {
  return "/proc/self/fd/" + std::to_string(descriptor);
}

// Open an unnamed file in `folder`. Return a closed descriptor if that is impossible or the file
// could not be named later.
Descriptor open_unnamed(const fs::path& folder) {
  const std::string place = folder.empty() ? "." : folder.string();
  Descriptor descriptor(::open(place.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666));
  const bool has_path = ::access(path_of_descriptor(descriptor.get()).c_str(), F_OK) == 0;
  return has_path ? std::move(descriptor) : Descriptor();
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  const Target target = target_of(path_);
  target_ = target.path;
  Descriptor descriptor;
  // Stdout may be a file that others write to as well, so it keeps its place and its O_APPEND.
  const bool is_stdout = path_ == kStdout;
  if (is_stdout) std::fflush(stdout);
  if (target.direct || is_stdout) {
    descriptor = Descriptor(is_stdout ? ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                                      : ::open(target_.c_str(), O_WRONLY | O_CLOEXEC));
    if (!descriptor.is_open()) fail_to_open(path_, errno);
  } else {
    const fs::path folder = fs::path(target_).parent_path();
    descriptor = open_unnamed(folder);
    unnamed_ = descriptor.is_open();
    if (!unnamed_)
      descriptor = Descriptor(make_with_new_name(folder, temporary_, [](const char* name) {
        return ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      }));
    if (!descriptor.is_open()) {
      temporary_.clear();
      fail_to_open(path_, errno);
    }
    if (target.mode.has_value() && ::fchmod(descriptor.get(), *target.mode) != 0)
      discard_and_fail(errno);
  }
  file_ = ::fdopen(descriptor.get(), "wb");
  if (file_ == nullptr) discard_and_fail(errno);
  descriptor.release();
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

// Give the unnamed file a temporary name, because only rename can replace a file, linkat can't.
void AtomicFile::name_it() {
  const std::string unnamed = path_of_descriptor(::fileno(file_));
  std::string name;
  const int linked =
      make_with_new_name(fs::path(target_).parent_path(), name, [&](const char* new_name) {
        return ::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, new_name, AT_SYMLINK_FOLLOW);
      });
  if (linked != 0) discard_and_fail(errno);
  temporary_ = name;
}

void AtomicFile::prepare() {
  sync();
  if (unnamed_) name_it();
  if (std::fclose(std::exchange(file_, nullptr)) != 0) discard_and_fail(errno);
  if (!temporary_.empty()) replaced_ = Descriptor(::open(target_.c_str(), O_PATH | O_CLOEXEC));
  is_prepared_ = true;
}

void AtomicFile::commit() {
  if (!is_prepared_) prepare();
  is_prepared_ = false;
  if (temporary_.empty()) return;
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) discard_and_fail(errno);
  temporary_.clear();
}

void write_file(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

AtomicFolder::AtomicFolder(std::string path) : path_(std::move(path)) {
  const auto refuse_folder = [&](const std::string& why) {
    throw InputError(about_file(path_, why + "; accepted: a new or empty folder"));
  };
  if (path_.empty()) refuse_folder("an empty path");
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  std::error_code error;
  if (fs::is_directory(path_, error)) {
    if (!fs::is_empty(path_, error)) refuse_folder("is not empty");
    path_ = fs::canonical(path_, error);  // a link can't be replaced by a folder
#ifdef STATX_ATTR_MOUNT_ROOT              // browsers have no mounts
    struct statx facts {};
    if (::statx(AT_FDCWD, path_.c_str(), 0, 0, &facts) == 0 &&
        (facts.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0)
      refuse_folder("is where something is mounted, which can't be replaced");
#endif
  } else if (fs::exists(fs::symlink_status(path_, error))) {
    refuse_folder("is not a folder");
  }
  const int made = make_with_new_name(fs::path(path_).parent_path(), temporary_,
                                      [](const char* name) { return ::mkdir(name, 0777); });
  if (made != 0) refuse_folder(std::strerror(errno));
  struct stat replaced {};
  if (::stat(path_.c_str(), &replaced) == 0) ::chmod(temporary_.c_str(), replaced.st_mode & 07777);
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void AtomicFolder::commit() {
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, errno);
  temporary_.clear();
}

void require_writable(const std::string& path) {
  // Opening a fifo would wait for its reader, so only permission is checked for direct targets.
  if (!target_of(path).direct) AtomicFile probe(path);
}

}  // namespace ringscope
