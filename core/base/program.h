// How to call this program, for texts that tell readers what to type next.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace ringscope {

// Return "ringscope" if installed, and "./ringscope" (the launcher) in the source folder.
inline std::string own_command() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return self.parent_path().filename() == "bin" ? "ringscope" : "./ringscope";
}

}  // namespace ringscope
