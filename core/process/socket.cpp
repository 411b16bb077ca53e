#include "core/process/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "core/base/error.h"

namespace ringscope {
namespace {

void set_option(int fd, int level, int name, int value) {
  (void)::setsockopt(fd, level, name, &value, sizeof value);
}

// Small messages leave at once; a host that vanished is noticed even where nobody waits for it.
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

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

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

}  // namespace ringscope
