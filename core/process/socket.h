// TCP sockets as the lifeline needs them: owned, nonblocking, closed on exec.
#pragma once

#include <optional>
#include <string>
#include <utility>

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

}  // namespace ringscope
