#include "app/terminal.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "core/base/error.h"

namespace ringscope {

void print_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return;
  throw RunError(std::string("stdout: writing failed: ") + std::strerror(errno));
}

void print_error(std::string_view message) {
  std::string line = "ringscope: ";
  for (const char c : message) line += (c >= 0 && c < ' ') || c == 0x7f ? '?' : c;
  line += '\n';
  std::fputs(line.c_str(), stderr);
}

}  // namespace ringscope
