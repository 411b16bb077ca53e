// Files that can be trusted. InputFile reads a regular file and knows its size, so a parser can
// check what a hostile file claims. AtomicFile writes a file that appears whole or not at all.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/math.h"

namespace ringscope {

// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

class InputFile {
 public:
  // Open `path`. `kind` is what a message names as accepted, such as ".npy file". This and read()
  // throw InputError without the path, because callers add it to their own complaints as well.
  InputFile(const std::string& path, std::string kind);

  Index size() const { return size_; }  // bytes

  // Fill `to` with the `count` bytes that start at `offset`.
  void read(char* to, Index count, Index offset) const;

 private:
  [[noreturn]] void fail(int error) const;

  std::string kind_;
  Descriptor descriptor_;
  Index size_ = 0;
};

// Return `complaint`, which is about the content of `path`, with the path in front.
std::string about_file(const std::string& path, const std::string& complaint);

// Return f(). Its InputErrors, which are about `path`, leave with the path in front.
template <class F>
decltype(auto) with_path_in_errors(const std::string& path, F&& f) {
  try {
    return f();
  } catch (const InputError& error) {
    throw InputError(about_file(path, error.what()));
  }
}

// Return the bytes of the whole file. `kind` is that of InputFile. Throw an InputError that names
// `path`, also when there are more than `most`.
std::string read_file(const std::string& path, const std::string& kind, Index most = INT64_MAX);

// Return the first `most` bytes of a recorded trace, or all of a shorter one. Throw InputError that
// names `path`.
std::string start_of_file(const std::string& path, Index most);

// Return `paths` with the files of each folder, by name, in the folder's place, without the notes that lie
// beside recordings (*.notes.json). Throw InputError for a folder that has none.
std::vector<std::string> files_in(const std::vector<std::string>& paths);

// ---
// Writes a file whole or not at all: in its folder without a name, then named and moved to its place, so
// nothing stays behind even if the process is killed. A file system without unnamed files gets a temporary
// name instead. Links are followed, a replaced file keeps its mode, devices and fifos are written directly.
class AtomicFile {
 public:
  // Open a temporary file in the folder of `path`. Throw InputError when that place cannot be
  // written to or `path` is a directory, and RunError when the disk is full.
  explicit AtomicFile(std::string path);
  ~AtomicFile();  // removes the temporary file unless commit() was called
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Write `bytes`. Throw a RunError that names the path and the system's reason (disk full).
  void write(std::string_view bytes);
  // Flush all to the disk, so a full disk can't make commit() fail afterwards. Throw RunError.
  void sync();
  // Sync, and leave nothing to commit() but the renaming, so that those of several files follow each
  // other at once. Throw RunError.
  void prepare();
  // Prepare, then rename the file to its place. Throw RunError.
  void commit();

 private:
  void name_it();
  void discard();
  [[noreturn]] void discard_and_fail(int error);

  std::string path_;       // as given
  std::string target_;     // after following links
  std::string temporary_;  // its name until it is moved; empty if it has none
  bool unnamed_ = false;
  std::FILE* file_ = nullptr;
  bool is_prepared_ = false;
  // The file that is replaced, held so that it is freed, which takes a thousand times as long as a
  // renaming, only after the renamings of all files that belong together.
  Descriptor replaced_;
};

// Call f, and let its errors speak of `path` where they say `place`, because nobody knows the
// temporary name of a folder.
template <class F>
void with_place_in_errors(const std::string& place, const std::string& path, F&& f) {
  const auto renamed = [&](std::string text) {
    if (const std::size_t at = text.find(place); at != text.npos)
      text.replace(at, place.size(), path);
    return text;
  };
  try {
    f();
  } catch (const RunError& error) {
    throw RunError(renamed(error.what()), error.rank(), error.step());
  } catch (const InputError& error) {
    throw InputError(renamed(error.what()));
  }
}

// Write the whole file. Throw as AtomicFile does.
void write_file(const std::string& path, std::string_view bytes);

// Makes a folder that appears whole or not at all: under a hidden temporary name beside its place, which
// stays if the process is killed. It takes the mode of an empty folder that it replaces.
class AtomicFolder {
 public:
  // Make the temporary folder. Throw InputError if its place cannot be written to, or holds
  // anything but an empty folder.
  explicit AtomicFolder(std::string path);
  ~AtomicFolder();  // removes it with all that is in it unless commit() was called
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // Call f(PLACE) to write files into the folder PLACE. Errors name the place that it is for.
  template <class F>
  void fill(F&& f) const {
    with_place_in_errors(temporary_, path_, [&] { f(temporary_); });
  }
  // Rename the folder to its place. Throw RunError.
  void commit();

 private:
  std::string path_, temporary_;
};

// Throw what opening AtomicFile(path) would throw. Call this before long work. It leaves nothing
// behind.
void require_writable(const std::string& path);

}  // namespace ringscope
