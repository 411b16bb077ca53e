// Reads a recording's story from its JSON, with any parser. It reports errors only at the end,
// because whether the file is a recording of ours may be known only after the story.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/trace/chrome_trace_fields.h"
#include "core/trace/event.h"

namespace ringscope {

class StoryReader {
 public:
  // Begin the list at byte `at`.
  void begin(std::size_t at);
  // Read one step of the list: its fields, and the end of the object that holds them.
  void begin_step();
  void set(TraceKey key, TraceValue::Kind kind, std::string_view text, std::size_t at);
  void end_step(std::size_t end);
  // Note that byte `at` holds something other than the list, or an object of it.
  void refuse(std::size_t at);

  // Return the story, empty if there was none. Throw InputError naming the byte of the error.
  std::vector<StoryStep> take(int world_size);

 private:
  void complain(std::size_t at, std::string_view complaint);
  StoryStep step(std::size_t end);
  int below_world_size(TraceKey key, std::size_t end);

  TraceFields fields_;
  std::vector<StoryStep> steps_;
  bool begun_ = false;
  std::int64_t highest_ = -1;  // the highest rank or step given
  std::size_t highest_at_ = 0;
  std::optional<InputError> complaint_;  // the first one
};

}  // namespace ringscope
