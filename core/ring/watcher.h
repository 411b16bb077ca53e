// Watches the ranks of one process, each a thread: ends a run that has come to a halt, and tells
// those that are still at work to stop once it has failed.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "core/ring/engine.h"
#include "core/ring/watch.h"

namespace ringscope {

class Watcher {
 public:
  // `pulses`, one a rank, and `engine` must outlive it. Throws RunError when there is no thread for it.
  Watcher(std::vector<RankPulse*> pulses, double timeout_s, Engine& engine);
  ~Watcher();

  // The rank's thread has ended, well or not.
  void ended(int rank);

 private:
  void run();
  bool has_failed();

  std::vector<RankPulse*> pulses_;
  const double timeout_s_;
  Engine& engine_;
  std::mutex mutex_;  // guards the next three
  std::condition_variable closing_;
  bool closed_ = false;
  std::vector<bool> ended_;
  std::thread thread_;
};

}  // namespace ringscope
