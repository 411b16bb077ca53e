// The program's two ways to speak.
#pragma once

#include <string_view>

namespace ringscope {

// On stdout. Throws RunError when it can't be written to (a full disk behind a redirection).
void print_out(std::string_view text);

// "ringscope: `message`" as one line on stderr, whatever bytes a file name brought into it.
void print_error(std::string_view message);

}  // namespace ringscope
