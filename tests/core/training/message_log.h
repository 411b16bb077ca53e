// A communicator that writes down what is sent through it, for counting.
#pragma once

#include <map>
#include <vector>

#include "core/ring/forwarding.h"

namespace ringscope {

class MessageLog : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override {
    hops.push_back(hop);
    return inner_.exchange(hop, after);
  }

  std::vector<Exchange> hops;
};

}  // namespace ringscope
