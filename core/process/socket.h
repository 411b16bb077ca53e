// Provides the clock, the sockets and the connections that a lifeline is made of. wire.h says what
// their frames mean.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/files.h"
#include "core/process/wire.h"

namespace ringscope {

// ---
// The one clock for all deadlines of this process.

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// ---
// TCP sockets for the lifeline: nonblocking, and closed on exec.

struct Listener {
  Descriptor socket;
  int port = 0;
  bool takes_ipv6 = false;
};

// Listen on all addresses of this host, at a port that the system chooses. Throw RunError.
Listener listen_on_all_addresses();
// Return the next connection at `listener`; none when there is none, or none could be taken.
std::optional<Descriptor> accept_at(int listener);
// Begin to connect to a numeric address; return none when that fails at once, with the reason in
// errno. When the socket becomes writable, connect_error() knows the result.
std::optional<Descriptor> begin_connect(const std::string& address, int port);
// Return 0 when a begun connection was made, else the error.
int connect_error(int socket);

// Make, increase or clear a counter that poll() can wait for.
Descriptor make_wake_up();
void wake_up(int fd);
void clear_wake_up(int fd);

// ---
// One end of a lifeline: frames in and out of a socket, without ever waiting for the socket.

class Connection {
 public:
  using OnFrame = std::function<void(wire::Type, std::string_view payload)>;

  explicit Connection(Descriptor socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }

  // Send a frame ahead of unsent long messages, as far as the socket takes it at once.
  void send(wire::Type type, std::string_view payload = {});
  // Send a message of any length, in order with other messages. All parts but the last are `part`.
  void send_message(wire::Type part, wire::Type last, std::shared_ptr<const std::string> message);
  // Forget what is left of long messages. The peer gets no end of one that had begun.
  void drop_messages() { messages_.clear(); }

  bool has_unsent_frames() const { return sent_ < out_.size(); }
  bool has_unsent() const { return has_unsent_frames() || !messages_.empty(); }
  // Write as much as the socket takes, within limits that leave time for other connections.
  void write();
  // Call on_frame for what has arrived. Return false when nothing more will come, because the peer
  // closed or broke the protocol.
  bool read(const OnFrame& on_frame);
  void end_writing();  // the peer reads an end after what was sent

 private:
  struct Message {
    wire::Type part, last;
    std::shared_ptr<const std::string> text;
    std::size_t taken = 0;
  };
  bool write_frames();
  void take_next_part();
  void parse(const OnFrame& on_frame);

  Descriptor socket_;
  std::string in_;
  std::string out_;  // frames
  std::size_t sent_ = 0;
  std::deque<Message> messages_;
  bool peer_reads_ = true;
};

}  // namespace ringscope
