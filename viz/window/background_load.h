// Loads traces on a separate thread, so that the window stays responsive.
#pragma once

#include <atomic>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "viz/window/open_session.h"

namespace ringscope::viz {

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
