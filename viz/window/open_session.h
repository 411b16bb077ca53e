// Makes the session that the viewer shows from trace files, at once or on a separate thread.
#pragma once

#include <atomic>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "viz/model/session/session.h"
#include "viz/model/trace/trace_loader.h"
#include "viz/window/view.h"

namespace ringscope::viz {

// Throw InputError for files that are missing, empty or directories, which is known before reading.
void require_openable(const std::vector<std::string>& paths);

// Return the session of `paths`, with several recordings side by side, opened as `options` ask.
// Throw as load_traces does, and InputError for a step, paragraph or panel that a trace lacks.
Session open_session(const std::vector<std::string>& paths, const ViewOptions& options,
                     LoadProgress* progress);

// ---
// Loads traces on a thread of its own, so that the window stays responsive.

class BackgroundLoad {
 public:
  // The other thread calls `wake` when loading is over.
  BackgroundLoad(std::vector<std::string> paths, ViewOptions options, void (*wake)());
  ~BackgroundLoad();  // stops loading and waits for the thread
  BackgroundLoad(const BackgroundLoad&) = delete;
  BackgroundLoad& operator=(const BackgroundLoad&) = delete;

  const LoadProgress& progress() const { return progress_; }
  bool finished() const { return finished_; }
  // Return the session. Call this once, when finished. Rethrows what loading threw.
  Session take();

 private:
  LoadProgress progress_;
  std::optional<Session> session_;
  std::exception_ptr failure_;
  std::atomic<bool> finished_{false};
  std::thread thread_;
};

}  // namespace ringscope::viz
