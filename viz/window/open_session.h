// Makes the session that the viewer shows from trace files.
#pragma once

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tools/foreign/trace_files.h"
#include "viz/data/session/session.h"
#include "viz/window/view.h"

namespace ringscope::viz {

// Throw InputError for files that are missing, empty or directories, which is known before reading.
void require_openable(const std::vector<std::string>& paths);

// Return the place that a text names on the session's axis: a time, or a number of steps.
std::optional<double> place_on_axis(const Session& session, std::string_view text);

// Return the session of recordings in memory.
Session recorded_session(const std::vector<Recording>& recordings);

// Return the session of `paths`, with several recordings side by side, opened as `options` ask.
// Throw as load_traces does, and InputError for a step, paragraph or panel that a trace lacks.
Session open_session(const std::vector<std::string>& paths, const ViewOptions& options,
                     LoadProgress* progress);

// Loads on a thread of its own, so that the window stays responsive.
class BackgroundLoad {
 public:
  BackgroundLoad(std::vector<std::string> paths, ViewOptions options)
      : session_(std::async(std::launch::async,
                            [this, paths = std::move(paths), options = std::move(options)] {
                              return open_session(paths, options, &progress_);
                            })) {}
  ~BackgroundLoad() { progress_.cancel = true; }  // and session_ waits for the thread
  BackgroundLoad(const BackgroundLoad&) = delete;
  BackgroundLoad& operator=(const BackgroundLoad&) = delete;

  const LoadProgress& progress() const { return progress_; }
  bool finished() const {
    return session_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  // Return the session. Call this once, when finished. Rethrows what loading threw.
  Session take() { return session_.get(); }

 private:
  LoadProgress progress_;
  std::future<Session> session_;
};

}  // namespace ringscope::viz
