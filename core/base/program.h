// How to call this program, for texts that tell readers what to type next.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace ringscope {

// Return "ringscope" if installed, and "./ringscope" (the launcher) in the source folder.
inline std::string own_command() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return self.parent_path().filename() == "bin" ? "ringscope" : "./ringscope";
}

// Return `word` as a shell reads it back.
inline std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return word;
  // Bytes that JSON, XML or a terminal may not take are written as bash reads them in $'...'.
  if (std::any_of(word.begin(), word.end(), [](char c) { return c < ' ' || c > '~'; })) {
    std::string escaped = "$'";
    for (const char c : word)
      escaped += c == '\'' || c == '\\' ? std::string("\\") + c
                 : c < ' ' || c > '~'   ? fmt::format("\\x{:02x}", static_cast<unsigned char>(c))
                                        : std::string(1, c);
    return escaped + "'";
  }
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

}  // namespace ringscope
