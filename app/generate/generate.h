// The options of `ringscope generate`: a checkpoint, a prompt, and how the text continues.
#pragma once

#include <optional>
#include <string>

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

}  // namespace ringscope
