#include "core/process/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "core/base/error.h"

namespace ringscope {

namespace {

void set_option(int fd, int level, int name, int value) {
  (void)::setsockopt(fd, level, name, &value, sizeof value);
}

// Send small messages at once, and notice a vanished host even where nobody waits for it.
void set_up_connection(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

Descriptor open_socket(int family) {
  return Descriptor(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

bool bind_to_all(int fd, int family) {
  if (family == AF_INET6) {
    set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    sockaddr_in6 all{};
    all.sin6_family = AF_INET6;
    return ::bind(fd, reinterpret_cast<const sockaddr*>(&all), sizeof all) == 0;
  }
  sockaddr_in all{};
  all.sin_family = AF_INET;
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&all), sizeof all) == 0;
}

int port_of(int fd) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0) return 0;
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(own).sin6_port
                                         : reinterpret_cast<const sockaddr_in&>(own).sin_port);
}

}  // namespace

Listener listen_on_all_addresses() {
  for (const int family : {AF_INET6, AF_INET}) {
    Listener listener{open_socket(family), 0, family == AF_INET6};
    const int fd = listener.socket.get();
    if (fd < 0 || !bind_to_all(fd, family) || ::listen(fd, SOMAXCONN) != 0) continue;
    listener.port = port_of(fd);
    return listener;
  }
  throw RunError(std::string("no port to listen at: ") + std::strerror(errno));
}

std::optional<Descriptor> accept_at(int listener) {
  const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return std::nullopt;
  set_up_connection(fd);
  return Descriptor(fd);
}

std::optional<Descriptor> begin_connect(const std::string& address, int port) {
  sockaddr_in6 six{};
  sockaddr_in four{};
  const sockaddr* to = nullptr;
  socklen_t size = 0;
  if (::inet_pton(AF_INET6, address.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(static_cast<std::uint16_t>(port));
    to = reinterpret_cast<const sockaddr*>(&six);
    size = sizeof six;
  } else if (::inet_pton(AF_INET, address.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(static_cast<std::uint16_t>(port));
    to = reinterpret_cast<const sockaddr*>(&four);
    size = sizeof four;
  } else {
    errno = EINVAL;
    return std::nullopt;
  }
  Descriptor socket = open_socket(to->sa_family);
  if (!socket.is_open()) return std::nullopt;
  set_up_connection(socket.get());
  if (::connect(socket.get(), to, size) != 0 && errno != EINPROGRESS) return std::nullopt;
  return socket;
}

int connect_error(int socket) {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

Descriptor make_wake_up() {
  Descriptor fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!fd.is_open()) throw RunError(std::string("no eventfd: ") + std::strerror(errno));
  return fd;
}

void wake_up(int fd) {
  const std::uint64_t one = 1;
  (void)!::write(fd, &one, sizeof one);
}

void clear_wake_up(int fd) {
  std::uint64_t count = 0;
  (void)!::read(fd, &count, sizeof count);
}

namespace {

constexpr int kPartsAtOnce = 16;

}  // namespace

void Connection::send(wire::Type type, std::string_view payload) {
  if (!peer_reads_) return;
  out_ += wire::frame(type, payload);
  write_frames();
}

void Connection::send_message(wire::Type part, wire::Type last,
                              std::shared_ptr<const std::string> message) {
  if (!peer_reads_) return;
  messages_.push_back({part, last, std::move(message)});
  write();
}

void Connection::take_next_part() {
  Message& message = messages_.front();
  const std::size_t left = message.text->size() - message.taken;
  const std::size_t size = std::min(left, wire::kMaxPayload);
  out_ += wire::frame(size == left ? message.last : message.part,
                      std::string_view(*message.text).substr(message.taken, size));
  message.taken += size;
  if (size == left) messages_.pop_front();
}

// Return whether all of out_ has left.
bool Connection::write_frames() {
  while (has_unsent_frames()) {
    const ssize_t n = ::send(fd(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (n < 0) {
      // What the peer sent before can still be read, and reading will also show that it is gone.
      peer_reads_ = false;
      messages_.clear();
      break;
    }
    sent_ += static_cast<std::size_t>(n);
  }
  out_.clear();
  sent_ = 0;
  return true;
}

void Connection::write() {
  for (int i = 0; write_frames() && !messages_.empty() && i < kPartsAtOnce; ++i) take_next_part();
  write_frames();
}

void Connection::parse(const OnFrame& on_frame) {
  std::string_view rest = in_;
  while (const std::optional<wire::Frame> frame = wire::first_frame(rest)) {
    on_frame(frame->type, frame->payload);
    rest.remove_prefix(frame->bytes);
  }
  in_.erase(0, in_.size() - rest.size());
}

bool Connection::read(const OnFrame& on_frame) {
  char buffer[64 << 10];
  try {
    for (int i = 0; i < kPartsAtOnce; ++i) {
      const ssize_t n = ::recv(fd(), buffer, sizeof buffer, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
      if (n == 0) return false;
      in_.append(buffer, static_cast<std::size_t>(n));
      parse(on_frame);
    }
  } catch (const wire::Malformed&) {
    return false;
  }
  return true;
}

void Connection::end_writing() { (void)::shutdown(fd(), SHUT_WR); }

}  // namespace ringscope
