#include "viz/window/background_load.h"

#include <utility>

namespace ringscope::viz {

BackgroundLoad::BackgroundLoad(std::vector<std::string> paths, ViewOptions options, void (*wake)())
    : thread_([this, paths = std::move(paths), options = std::move(options), wake] {
        try {
          session_.emplace(open_session(paths, options, &progress_));
        } catch (...) {
          failure_ = std::current_exception();
        }
        finished_ = true;
        wake();
      }) {}

BackgroundLoad::~BackgroundLoad() {
  progress_.cancel = true;
  if (thread_.joinable()) thread_.join();
}

Session BackgroundLoad::take() {
  thread_.join();
  if (failure_) std::rethrow_exception(failure_);
  return std::move(*session_);
}

}  // namespace ringscope::viz
