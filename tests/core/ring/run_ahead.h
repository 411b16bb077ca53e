// Decorators around both seams that let no rank go on before the block that is K - 1 steps ahead has
// arrived: a ring that does not post its hops so far ahead, or moves nothing while a rank computes,
// never ends.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "tests/core/ring/forwarding.h"

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
  Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                    const KvBlock& block, const SoftmaxState& state,
                    const Completion& after) override {
    hops_.wait_for_the_last(step.step);
    return ForwardingBackend::attend(step, region, q, block, state, after);
  }
  Completion begin_backward(const QueryBlock& q, const BackwardState& state) override {
    hops_.posted.clear();
    return ForwardingBackend::begin_backward(q, state);
  }
  Completion attend_backward(const StepInfo& step, const Region& region, const QueryBlock& q,
                             const KvBlock& block, const BackwardState& state,
                             const KvGradient& gradient, const Completion& after) override {
    hops_.wait_for_the_last(step.step);
    return ForwardingBackend::attend_backward(step, region, q, block, state, gradient, after);
  }

 private:
  HopsAhead& hops_;
};

}  // namespace ringscope
