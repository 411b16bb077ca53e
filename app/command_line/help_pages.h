// Pages made from the table that reads the command line: a man page, and the scripts with which
// bash and zsh complete commands, flags and their values.
#pragma once

#include <string>
#include <vector>

#include "app/command_line/flags.h"

namespace ringscope {

// Return a page: "man" (troff), "bash", "zsh", or "" for the text of --help. Throw InputError.
std::string help_page(const std::string& page, const CommandLine& line);

}  // namespace ringscope
