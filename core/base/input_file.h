// A regular file that is open for reading, and its size: what a reader of hostile files has to know
// before it believes anything that the file says of itself.
#pragma once

#include <string>

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

}  // namespace ringscope
