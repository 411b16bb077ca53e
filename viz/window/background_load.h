// Loads traces on a thread of its own, so that the window stays responsive.
#pragma once

#include <chrono>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "viz/window/open_session.h"

namespace ringscope::viz {

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
