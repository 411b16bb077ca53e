// Decorators around both seams that let no rank go on before the block that is K - 1 steps ahead has
// arrived: a ring that does not post its hops so far ahead, or moves nothing while a rank computes,
// never ends.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "core/ring/forwarding.h"

namespace ringscope {

// One rank's, shared by its two decorators.
struct HopsAhead {
  int kv_buffers = 2, world_size = 1;
  std::vector<Completion> posted;  // of this pass

  // Called by the backend, inside of `step`.
  void wait_for_the_last(int step) const {
    const int expected = std::min(step + kv_buffers, world_size) - 1;
    if (static_cast<int>(posted.size()) != expected)
      throw std::runtime_error(std::to_string(posted.size()) + " hops posted, not " +
                               std::to_string(expected));
    if (!posted.empty()) wait_for(posted.back());
  }
};

class WatchedCommunicator : public ForwardingCommunicator {
 public:
  WatchedCommunicator(Communicator& inner, HopsAhead& hops)
      : ForwardingCommunicator(inner), hops_(hops) {}
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override {
    const Completion posted = ForwardingCommunicator::exchange(hop, after);
    if (hop.payload == Payload::kv) hops_.posted.push_back(posted);
    return posted;
  }

 private:
  HopsAhead& hops_;
};

class WaitingBackend : public ForwardingBackend {
 public:
  WaitingBackend(BlockBackend& inner, HopsAhead& hops) : ForwardingBackend(inner), hops_(hops) {}

 private:
  Completion around(BlockOperation which, const StepInfo* step, const Completion& after,
                    const Start& start) override {
    if (which == BlockOperation::attend || which == BlockOperation::attend_backward)
      hops_.wait_for_the_last(step->step);
    if (which == BlockOperation::begin_backward) hops_.posted.clear();
    return start(after);
  }

  HopsAhead& hops_;
};

}  // namespace ringscope
