// The places of what commands write: checked before the long work, against each other and against all
// that is read.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ringscope {

// An output, and the flag that asks for it; without a path it was not asked for.
struct OutputPlace {
  const char* flag;
  std::optional<std::string> path;
  bool is_folder = false;
};

// Append to `files` those that names of masks and partitions have in them: `ranges:FILE`, `file:FILE`.
void add_files_in(const std::vector<std::string>& names, std::vector<std::string>& files);

// Throw InputError for a place that can't be written to, that is also another output or one of the
// `inputs` (all files that the command reads), or that is stdout while --json uses it (`json`).
void check_output_places(const std::vector<OutputPlace>& places,
                         const std::vector<std::string>& inputs, bool json);

}  // namespace ringscope
