// Loading on a thread of its own, while the window stays alive.
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
  // `wake` is called from the other thread when loading is over.
  BackgroundLoad(std::vector<std::string> paths, ViewOptions options, void (*wake)());
  ~BackgroundLoad();  // stops loading and waits for that
  BackgroundLoad(const BackgroundLoad&) = delete;
  BackgroundLoad& operator=(const BackgroundLoad&) = delete;

  const LoadProgress& progress() const { return progress_; }
  bool finished() const { return finished_; }
  // Once, when finished. Throws what loading threw.
  Session take();

 private:
  LoadProgress progress_;
  std::optional<Session> session_;
  std::exception_ptr failure_;
  std::atomic<bool> finished_{false};
  std::thread thread_;
};

}  // namespace ringscope::viz
