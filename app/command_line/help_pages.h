// Pages made from the table that reads the command line: a man page, and what bash and zsh need to
// complete commands, flags and their values.
#pragma once

#include <string>
#include <vector>

#include "app/command_line/flags.h"

namespace ringscope {

// `page` is "man" (troff), "bash" or "zsh"; "" for `help`, the text of --help. Throws InputError.
std::string help_page(const std::string& page, const CommandLine& line);

}  // namespace ringscope
