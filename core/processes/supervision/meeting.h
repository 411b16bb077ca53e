// How the ranks of a run find each other. Rank 0 opens a door, whose invitation the others get by any
// means, such as MPI_Bcast; it holds where rank 0 listens, and two secrets. A process that connects
// shows the first, so rank 0 can tell the run's ranks from strangers. Rank 0 answers with the second,
// so a rank can tell rank 0 from another program at that port.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/files.h"

namespace ringscope {

// ---
// The messages of a lifeline and the connections that they go over. All ranks run the same program,
// so a message's head travels as it lies in memory. Readers trust no length.

// The one clock for all deadlines of this process.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct MessageHead {
  enum class Kind : std::uint32_t {
    join,     // to rank 0, first of all: `rank` of `number` ranks; the text is the secret
    welcome,  // rank 0's answer, with the other secret
    status,   // a sign of life; the text says what the rank does outside of the ring
    report,   // to rank 0: the run has failed
    lost,     // to rank 0, if it still reads: it was taken for lost
    verdict,  // from rank 0: the run has failed
    bye       // to rank 0: this rank is done; from rank 0: all are
  };
  Kind kind = Kind::status;
  std::int32_t rank = -1;         // of a failure: the rank that is named
  std::int32_t step = -1;         // where that rank is
  std::int32_t pass = 0;          // of a status
  std::int32_t waiting_for = -1;  // likewise
  std::int32_t number = 0;        // of a failure: the exit status
  std::uint64_t progress = 0;     // of a status
  std::uint64_t text_bytes = 0;
};

struct Message : MessageHead {
  static constexpr std::size_t kMaxText = 4096;  // longer texts are cut

  Message() = default;
  Message(Kind its_kind, std::string its_text) : text(std::move(its_text)) { kind = its_kind; }

  std::string text;
};

// One end of a lifeline: messages in and out of a nonblocking socket, without ever waiting for it.
class Connection {
 public:
  using OnMessage = std::function<void(const Message&)>;

  explicit Connection(Descriptor socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }

  // Send as much as the socket takes at once. The rest waits for write().
  void send(const Message& message);
  void write();
  bool has_unsent() const { return !out_.empty(); }
  // Call on_message for what has arrived. Return false when nothing more will come, because the peer
  // closed or sent something else.
  bool read(const OnMessage& on_message);
  void end_writing();  // the peer reads an end after what was sent

 private:
  bool take_messages(const OnMessage& on_message);

  Descriptor socket_;
  std::string in_, out_;
};

// ---

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
