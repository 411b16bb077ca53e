// The story of a recording out of its JSON, whichever parser reads that. What is wrong with it is
// said at the end, for whether the file is a recording of ours may stand behind its story.
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
  // The list begins at byte `at`.
  void begin(std::size_t at);
  // One step of it: its fields, and the end of the object that holds them.
  void begin_step();
  void set(TraceKey key, TraceValue::Kind kind, std::string_view text, std::size_t at);
  void end_step(std::size_t end);
  // At byte `at` something stands where a list, or an object of it, belongs.
  void refuse(std::size_t at);

  // The story, empty where there was none. Throws InputError that names the byte of what is wrong.
  std::vector<StoryStep> take(int world_size);

 private:
  void complain(std::size_t at, std::string_view complaint);
  StoryStep step(std::size_t end);
  int below_world_size(TraceKey key, std::size_t end);

  TraceFields fields_;
  std::vector<StoryStep> steps_;
  bool begun_ = false;
  std::int64_t highest_ = -1;  // rank or step
  std::size_t highest_at_ = 0;
  std::optional<InputError> complaint_;  // the first
};

}  // namespace ringscope
