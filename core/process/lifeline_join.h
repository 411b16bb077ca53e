// How a connection comes about: who knocks at rank 0's door, and how rank 0 tells the ranks of its
// run from strangers.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/process/invitation.h"
#include "core/process/socket.h"
#include "core/process/wire.h"

namespace ringscope {

// Connects to rank 0 at all addresses of the invitation at once; the first that answers right is
// taken. Throws RunError naming rank 0 when none does within the timeout.
Descriptor reach_rank_0(const Invitation& invitation, int rank, int world_size, double timeout_s);

// Connections at rank 0's door that have not said yet who they are. Each may say as much as a knock
// has bytes; those who say something else, or nothing for a while, are dropped.
class Doorstep {
 public:
  struct Guest {
    wire::Knock knock;
    Descriptor socket;
  };

  Doorstep(Descriptor listener, const Invitation& invitation, int world_size);

  // Sockets to poll for reading. No reading of others is needed before one of these has something.
  std::vector<int> sockets(double now) const;
  // Takes new connections, and returns those that have shown the right secret.
  std::vector<Guest> admit(double now);
  std::string answer() const;  // the frame for a guest who may come in

 private:
  struct Stranger {
    Descriptor socket;
    std::string said;
    double since;
  };

  Descriptor listener_;
  Invitation invitation_;
  std::size_t room_;
  double rests_until_ = 0;  // while the system has no descriptors to give
  std::vector<Stranger> strangers_;
};

}  // namespace ringscope
