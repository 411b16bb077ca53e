// A regular file that is open for reading, and its size: what a reader of hostile files has to know
// before it believes anything that the file says of itself.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "core/base/math.h"

namespace ringscope {

class InputFile {
 public:
  // `kind` is what a message names as accepted, such as ".npy file". Throws InputError, here and in
  // read, without the path: callers add it to their own complaints as well.
  InputFile(const std::string& path, std::string kind);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  Index size() const { return size_; }  // bytes

  // Fills `to` with the `count` bytes from `offset` on.
  void read(char* to, Index count, Index offset) const;

 private:
  [[noreturn]] void fail(int error) const;

  std::string kind_;
  int descriptor_ = -1;
  Index size_ = 0;
};

// A complaint about what `path` holds, with the path before it.
std::string about_file(const std::string& path, const std::string& complaint);

// ---
// A file that appears whole or not at all: written without a name in its folder, then named and moved
// to its place, so that nothing stays behind even when the process is killed meanwhile. (Where the
// file system has no files without a name, it is written beside its place under another one.) Links
// are followed, and a file that is replaced hands on its mode. Devices and fifos are written to as
// they are.

class AtomicFile {
 public:
  // Opens a temporary file in the folder of `path`. Throws InputError when that place cannot be written to or
  // `path` is a directory, RunError when the disk is full.
  explicit AtomicFile(std::string path);
  ~AtomicFile();  // removes the temporary file unless commit() was called
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Throws RunError naming the path and the system's reason (disk full).
  void write(std::string_view bytes);
  // Brings what was written to the disk: afterwards a full disk can't make commit() fail. Throws
  // RunError.
  void sync();
  // Syncs and renames. Throws RunError.
  void commit();

 private:
  void name_it();
  void discard();
  [[noreturn]] void discard_and_fail(int error);

  std::string path_;       // as given
  std::string target_;     // links followed
  std::string temporary_;  // its name until it is moved; empty: it has none
  bool unnamed_ = false;
  std::FILE* file_ = nullptr;
};

// Throws what opening AtomicFile(path) would throw: to be asked before long work. Leaves nothing
// behind.
void require_writable(const std::string& path);

}  // namespace ringscope
