// TCP sockets as the lifeline needs them: owned, nonblocking, closed on exec.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/process/wire.h"

namespace ringscope {

// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

struct Listener {
  Descriptor socket;
  int port = 0;
  bool takes_ipv6 = false;
};

// On all addresses of this host, at a port that the system chooses. Throws RunError.
Listener listen_on_all_addresses();
// The next connection that waits at `listener`; none when there is none, or none could be taken.
std::optional<Descriptor> accept_at(int listener);
// Begins to connect to a numeric address; none when that fails at once, errno saying why. Whether it
// worked is known when the socket can be written to.
std::optional<Descriptor> begin_connect(const std::string& address, int port);
// 0 when a begun connection was made, else the error.
int connect_error(int socket);

// A counter that poll() can wait for.
Descriptor make_wake_up();
void wake_up(int fd);
void clear_wake_up(int fd);

// ---
// One end of a lifeline: frames in and out of a socket, without ever waiting for it.

class Connection {
 public:
  using OnFrame = std::function<void(wire::Type, std::string_view payload)>;

  explicit Connection(Descriptor socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }

  // Goes out before what is left of long messages, as far as the socket takes it at once.
  void send(wire::Type type, std::string_view payload = {});
  // A message of any length, in order with other messages. All parts but the last are `part`.
  void send_message(wire::Type part, wire::Type last, std::shared_ptr<const std::string> message);
  // Forgets what is left of long messages. The peer gets no end of one that had begun.
  void drop_messages() { messages_.clear(); }

  bool has_unsent_frames() const { return sent_ < out_.size(); }
  bool has_unsent() const { return has_unsent_frames() || !messages_.empty(); }
  // As much as the socket takes, within limits that leave time for others.
  void write();
  // Calls on_frame for what has come. False when nothing more will: the peer closed, or sent what it
  // should not.
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
