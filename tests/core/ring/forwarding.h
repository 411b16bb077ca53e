// Decorators around the two seams that change nothing: tests override what they want to disturb.
#pragma once

#include "core/ring/seams.h"
#include "core/run/faulty_ring.h"

namespace ringscope {

class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(Communicator& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  int world_size() const override { return inner_.world_size(); }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override {
    return inner_.exchange(hop, after);
  }

 private:
  Communicator& inner_;
};

}  // namespace ringscope
