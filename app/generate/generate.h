// The options of `ringscope generate`, a checkpoint, a prompt, and how the text continues; and texts of
// any bytes as people and programs read them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "app/command_line/option_groups.h"
#include "core/model/generate.h"

namespace ringscope {

struct GenerateRequest {
  std::string checkpoint;                          // a file
  std::optional<std::string> prompt, prompt_file;  // at most one; none: a line's beginning
  GenerateOptions options;                         // without the prompt
  RankOptions ranks;
  bool json = false;
};

// Return a text of any bytes as it is safe for a terminal: printable UTF-8, tabs and line ends as they
// are, and everything else as \x and two digits. So a badly trained model can do no harm.
std::string shown(std::string_view text);

// Return every byte as two digits, from which, unlike from shown(), the text can be recovered.
std::string hex(std::string_view bytes);

}  // namespace ringscope
