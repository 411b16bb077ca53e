// How the ranks of a run find each other. Rank 0 opens a door, whose invitation the others get by any
// means, such as MPI_Bcast; it holds where rank 0 listens, and two secrets. A process that connects
// shows the first, so rank 0 can tell the run's ranks from strangers. Rank 0 answers with the second,
// so a rank can tell rank 0 from another program at that port.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/processes/supervision/connection.h"

namespace ringscope {

// Return what rank 0 must know of this host to choose where it listens: the network that it is on,
// and its addresses there, of at most kMaxHostCard bytes.
std::string host_card();
inline constexpr std::size_t kMaxHostCard = 2048;

class LifelineDoor {
 public:
  // Listen for ranks on the hosts of these cards: on the loopback if all are this one, else on the
  // interface that leads to all of them, or on all interfaces where there is no such one. No cards
  // mean this host. Throw RunError.
  explicit LifelineDoor(const std::vector<std::string>& host_cards = {});

  // Return one line of printable ASCII, such as "10.0.0.7,10.1.0.7/41234/<secret>/<secret>".
  const std::string& invitation() const { return invitation_; }

 private:
  friend class Acceptor;
  Descriptor listener_;
  std::string invitation_;
};

// A connection to rank 0, and what has come on it behind the answer.
struct ReachedRank0 {
  std::unique_ptr<Connection> connection;
  std::vector<Message> said;
};

// Connect to rank 0 at the addresses of the invitation, again and again until it answers. Throw
// RunError naming `rank` if it doesn't within the timeout.
ReachedRank0 reach_rank_0(const std::string& invitation, int rank, int world_size,
                          double timeout_s);

// Accepts connections at rank 0's door, a few at once, and drops those that don't show the secret.
class Acceptor {
 public:
  struct JoiningRank {
    Message request;
    std::unique_ptr<Connection> connection;
  };

  Acceptor(LifelineDoor door, int world_size);

  // Return the sockets to poll for reading. admit() is needed only when one of these has something.
  std::vector<int> sockets(double now) const;
  // Take new connections, and return those that have shown the secret.
  std::vector<JoiningRank> admit(double now);
  // Return what one of them is sent that is taken in.
  Message welcome() const { return {Message::Kind::welcome, answer_}; }

 private:
  struct Pending {
    std::unique_ptr<Connection> connection;
    double since;
  };

  Descriptor listener_;
  std::string join_secret_, answer_;
  std::size_t room_;
  double rests_until_ = 0;  // while the system has no free descriptors
  std::vector<Pending> pending_;
};

}  // namespace ringscope
