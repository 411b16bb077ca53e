// How connections to rank 0 are made, and how rank 0 tells the ranks of its run from strangers.
// What follows on a connection is in lifeline_thread.cpp.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/process/invitation.h"
#include "core/process/socket.h"
#include "core/process/wire.h"

namespace ringscope {

// Connect to rank 0 at all addresses of the invitation at once, and return the first connection
// with the right answer. Throw RunError naming rank 0 when there is none within the timeout.
Descriptor reach_rank_0(const Invitation& invitation, int rank, int world_size, double timeout_s);

// Connections at rank 0's door that have not yet identified themselves. Each may send as many bytes
// as a join_request has. Those that send something else, or nothing for a while, are dropped.
class Acceptor {
 public:
  struct Accepted {
    wire::JoinRequest join_request;
    Descriptor socket;
  };

  Acceptor(Descriptor listener, const Invitation& invitation, int world_size);

  // Return the sockets to poll for reading. admit() is needed only when one of these has something.
  std::vector<int> sockets(double now) const;
  // Take new connections, and return those that have shown the right secret.
  std::vector<Accepted> admit(double now);
  std::string answer() const;  // the frame for an admitted accepted

 private:
  struct Pending {
    Descriptor socket;
    std::string said;
    double since;
  };

  Descriptor listener_;
  Invitation invitation_;
  std::size_t room_;
  double rests_until_ = 0;  // while the system has no free descriptors
  std::vector<Pending> pending_;
};

}  // namespace ringscope
