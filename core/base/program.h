// How a reader calls this program, for texts that tell them what to type next.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace ringscope {

// "ringscope" where it is installed, and "./ringscope", the launcher, in the source folder.
inline std::string own_command() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return self.parent_path().filename() == "bin" ? "ringscope" : "./ringscope";
}

}  // namespace ringscope
