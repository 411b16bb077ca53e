// Counts what goes over the wire: the hops to the next rank that carry anything, and their bytes.
#pragma once

#include "core/ring/forwarding.h"

namespace ringscope {

struct WireCount {
  Index messages = 0;
  Index bytes = 0;

  bool operator==(const WireCount&) const = default;
  WireCount& operator+=(const WireCount& other) {
    messages += other.messages;
    bytes += other.bytes;
    return *this;
  }
};

// A communicator that counts what this rank sends and otherwise only forwards.
class WireCounter : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override {
    if (hop.send_bytes > 0)
      sent_[static_cast<int>(hop.pass)][static_cast<int>(hop.payload)] += {1, hop.send_bytes};
    return inner_.exchange(hop, after);
  }

  WireCount sent(Pass pass, Payload payload) const {
    return sent_[static_cast<int>(pass)][static_cast<int>(payload)];
  }
  WireCount sent(Pass pass) const {
    WireCount both = sent(pass, Payload::kv);
    return both += sent(pass, Payload::dkv);
  }
  WireCount sent() const {
    WireCount both = sent(Pass::forward);
    return both += sent(Pass::backward);
  }
  // Return sent(), and count again from zero.
  WireCount take() {
    const WireCount taken = sent();
    for (auto& of_pass : sent_)
      for (WireCount& count : of_pass) count = {};
    return taken;
  }

 private:
  WireCount sent_[2][2] = {};  // [pass][payload]
};

}  // namespace ringscope
