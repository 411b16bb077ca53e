#include "core/processes/supervision/meeting.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace ringscope {

namespace {

constexpr int kReadsAtOnce = 16;  // which leaves time for other connections

}  // namespace

void Connection::send(const Message& message) {
  MessageHead head = message;
  head.text_bytes = std::min(message.text.size(), Message::kMaxText);
  out_.append(reinterpret_cast<const char*>(&head), sizeof head);
  out_.append(message.text, 0, head.text_bytes);
  write();
}

void Connection::write() {
  while (!out_.empty()) {
    const ssize_t n = ::send(fd(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    // What the peer sent before can still be read, and reading will also show that it is gone.
    out_.erase(0, n < 0 ? out_.size() : static_cast<std::size_t>(n));
  }
}

bool Connection::take_messages(const OnMessage& on_message) {
  std::size_t taken = 0;
  while (in_.size() - taken >= sizeof(MessageHead)) {
    Message message;
    std::memcpy(static_cast<MessageHead*>(&message), in_.data() + taken, sizeof(MessageHead));
    if (message.kind > MessageHead::Kind::bye || message.text_bytes > Message::kMaxText)
      return false;
    const std::size_t bytes = sizeof(MessageHead) + message.text_bytes;
    if (in_.size() - taken < bytes) break;
    message.text = in_.substr(taken + sizeof(MessageHead), message.text_bytes);
    taken += bytes;
    on_message(message);
  }
  in_.erase(0, taken);
  return true;
}

bool Connection::read(const OnMessage& on_message) {
  char buffer[4096];
  for (int i = 0; i < kReadsAtOnce; ++i) {
    const ssize_t n = ::recv(fd(), buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (n == 0) return false;
    in_.append(buffer, static_cast<std::size_t>(n));
    if (!take_messages(on_message)) return false;
  }
  return true;
}

void Connection::end_writing() { (void)::shutdown(fd(), SHUT_WR); }

namespace {

constexpr double kPause = 0.1;
constexpr double kPendingSeconds = 5;  // for a stranger to show the secret
constexpr int kAcceptsAtOnce = 64;     // so that a flood of strangers does not keep the thread

// ---
// Addresses of this host and of others.

struct Network {
  std::string address;  // numeric
  int prefix = 0;       // bits that all addresses of the network share

  std::string text() const { return fmt::format("{}/{}", address, prefix); }
};

// Return the 4 or 16 bytes of a numeric address; none of anything else.
std::string address_bytes(const std::string& address) {
  char bytes[sizeof(in6_addr)];
  if (::inet_pton(AF_INET, address.c_str(), bytes) == 1) return {bytes, sizeof(in_addr)};
  if (::inet_pton(AF_INET6, address.c_str(), bytes) == 1) return {bytes, sizeof(in6_addr)};
  return "";
}

std::string numeric_address(const sockaddr& address) {
  std::array<char, NI_MAXHOST> text{};
  const socklen_t size = address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (::getnameinfo(&address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  return text.data();
}

// Return the networks that this host is on, except the loopback and link-local ones.
std::vector<Network> networks_here() {
  std::vector<Network> networks;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return networks;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_netmask == nullptr) continue;
    if ((entry->ifa_flags & IFF_UP) == 0 || (entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Network network{numeric_address(*entry->ifa_addr), 0};
    // A link-local address has its interface behind a %.
    if (address_bytes(network.address).empty()) continue;
    for (const char byte : address_bytes(numeric_address(*entry->ifa_netmask)))
      network.prefix += std::popcount(static_cast<unsigned char>(byte));
    networks.push_back(network);
  }
  return networks;
}

bool is_within(const std::string& address, const Network& network) {
  const std::string a = address_bytes(address), b = address_bytes(network.address);
  if (a.size() != b.size()) return false;
  for (int bit = 0; bit < network.prefix; ++bit)
    if (((a[bit / 8] ^ b[bit / 8]) >> (7 - bit % 8) & 1) != 0) return false;
  return true;
}

// Return whether the host of `card` has an address in `network`. One that this host has as well, as of
// a bridge for containers, says nothing.
bool leads_to(const std::string& card, const Network& network, const std::vector<Network>& here) {
  const std::vector<std::string_view> words = split(card, ' ');
  return std::any_of(words.begin() + 1, words.end(), [&](std::string_view word) {
    const std::string address(word.substr(0, word.find('/')));
    return is_within(address, network) &&
           std::ranges::none_of(here, [&](const Network& own) { return own.address == address; });
  });
}

// Return the addresses to listen at; empty for all of this host.
std::vector<std::string> addresses_toward(const std::vector<std::string>& cards,
                                          const std::vector<Network>& here) {
  const auto network_of = [](const std::string& card) { return card.substr(0, card.find(' ')); };
  const std::string mine = network_of(host_card());
  std::vector<std::string> others = cards;
  std::erase_if(others, [&](const std::string& card) { return network_of(card) == mine; });
  if (others.empty()) return {"127.0.0.1"};
  for (const Network& network : here)
    if (std::ranges::all_of(others,
                            [&](const std::string& card) { return leads_to(card, network, here); }))
      return {network.address};
  return {};
}

// ---
// Sockets: nonblocking, and closed on exec.

struct SocketAddress {
  SocketAddress(const std::string& numeric, int port) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    if (::getaddrinfo(numeric.c_str(), std::to_string(port).c_str(), &hints, &info) != 0)
      info = nullptr;
  }
  ~SocketAddress() {
    if (info != nullptr) ::freeaddrinfo(info);
  }
  SocketAddress(const SocketAddress&) = delete;

  addrinfo* info = nullptr;
};

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

// Return a listening socket at a port that the system chooses, or one that is not open.
Descriptor listen_at(const std::string& address) {
  const SocketAddress own(address, 0);
  if (own.info == nullptr) return {};
  Descriptor socket = open_socket(own.info->ai_family);
  if (own.info->ai_family == AF_INET6) set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(socket.get(), own.info->ai_addr, own.info->ai_addrlen) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0)
    return {};
  return socket;
}

int port_of(int fd) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  (void)::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size);
  // Both families have it at the same place.
  return ntohs(reinterpret_cast<const sockaddr_in&>(own).sin_port);
}

std::string new_secret() {
  std::array<unsigned char, 16> bytes{};
  // The system delivers up to 256 bytes at once.
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw RunError("the system gives no random numbers");
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

struct Invitation {
  explicit Invitation(const std::string& text) {
    const std::vector<std::string_view> parts = split(text, '/');
    if (parts.size() != 4) throw RunError("the invitation of rank 0 came damaged");
    for (const std::string_view address : split(parts[0], ',')) addresses.emplace_back(address);
    port = parse_number<int>(parts[1]).value_or(0);
    join_secret = parts[2];
    answer = parts[3];
  }

  std::vector<std::string> addresses;
  int port = 0;
  std::string join_secret, answer;
};

// One of rank 0's addresses, which is tried again and again. A connection that has asked is kept until
// it is closed, because rank 0 may be about to answer.
struct Candidate {
  std::string address;
  std::unique_ptr<Connection> connection = nullptr;
  bool has_asked = false;
  double again_at = 0;
  std::string why = "";  // it failed the last time

  void connect(int port) {
    const SocketAddress to(address, port);
    if (to.info == nullptr) return fail(EINVAL);
    Descriptor socket = open_socket(to.info->ai_family);
    set_up_connection(socket.get());
    if (::connect(socket.get(), to.info->ai_addr, to.info->ai_addrlen) != 0 && errno != EINPROGRESS)
      return fail(errno);
    connection = std::make_unique<Connection>(std::move(socket));
    has_asked = false;
  }
  // Return what has come, after something has.
  std::vector<Message> advance(const Message& request) {
    std::vector<Message> heard;
    int error = 0;
    socklen_t size = sizeof error;
    (void)::getsockopt(connection->fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0 && !std::exchange(has_asked, true))
      connection->send(request);
    else if (error != 0 || !connection->read([&](const Message& m) { heard.push_back(m); }))
      fail(error != 0 ? error : ECONNRESET);
    return heard;
  }
  void fail(int error) {
    connection.reset();
    again_at = steady_seconds() + kPause;
    why = std::strerror(error);
  }
};

}  // namespace

std::string host_card() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::array<char, 64> name{};  // "net:[4026531840]", another one in a container
  (void)!::readlink("/proc/self/ns/net", name.data(), name.size() - 1);
  std::string card = boot + "-" + name.data();
  for (const Network& network : networks_here())
    if (card.size() + network.text().size() < kMaxHostCard) card += " " + network.text();
  return card;
}

LifelineDoor::LifelineDoor(const std::vector<std::string>& host_cards) {
  const std::vector<Network> here = networks_here();
  std::vector<std::string> addresses = addresses_toward(host_cards, here);
  if (!addresses.empty()) {
    listener_ = listen_at(addresses.front());
  } else {
    for (const Network& network : here) addresses.push_back(network.address);
    listener_ = listen_at("::");
    if (!listener_.is_open()) listener_ = listen_at("0.0.0.0");
  }
  if (!listener_.is_open())
    throw RunError(std::string("no port to listen at: ") + std::strerror(errno));
  invitation_ = fmt::format("{}/{}/{}/{}", fmt::join(addresses, ","), port_of(listener_.get()),
                            new_secret(), new_secret());
}

ReachedRank0 reach_rank_0(const std::string& invitation_text, int rank, int world_size,
                          double timeout_s) {
  const Invitation invitation(invitation_text);
  Message request(Message::Kind::join, invitation.join_secret);
  request.rank = rank;
  request.number = world_size;
  std::vector<Candidate> candidates;
  for (const std::string& address : invitation.addresses) candidates.push_back({address});
  const double until = steady_seconds() + timeout_s;
  for (double now; (now = steady_seconds()) < until;) {
    std::vector<pollfd> polled;
    for (Candidate& candidate : candidates) {
      if (candidate.connection == nullptr && now >= candidate.again_at)
        candidate.connect(invitation.port);
      const int fd = candidate.connection == nullptr ? -1 : candidate.connection->fd();
      polled.push_back({fd, static_cast<short>(candidate.has_asked ? POLLIN : POLLOUT), 0});
    }
    ::poll(polled.data(), polled.size(), static_cast<int>(kPause * 1e3));
    for (std::size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      const std::vector<Message> heard = candidates[i].advance(request);
      if (heard.empty()) continue;
      if (candidates[i].connection != nullptr && heard[0].kind == Message::Kind::welcome &&
          heard[0].text == invitation.answer)
        return {std::move(candidates[i].connection), {heard.begin() + 1, heard.end()}};
      candidates[i].fail(EPROTO);
    }
  }
  const std::string& why = candidates[0].why;
  throw RunError(
      fmt::format("cannot reach rank 0 at {} (port {}): {}", fmt::join(invitation.addresses, ", "),
                  invitation.port, why.empty() ? std::strerror(ETIMEDOUT) : why),
      rank);
}

Acceptor::Acceptor(LifelineDoor door, int world_size)
    : listener_(std::move(door.listener_)), room_(256 + 8 * static_cast<std::size_t>(world_size)) {
  const Invitation invitation(door.invitation());
  join_secret_ = invitation.join_secret;
  answer_ = invitation.answer;
}

std::vector<int> Acceptor::sockets(double now) const {
  std::vector<int> sockets;
  if (now >= rests_until_) sockets.push_back(listener_.get());
  for (const Pending& pending : pending_) sockets.push_back(pending.connection->fd());
  return sockets;
}

std::vector<Acceptor::JoiningRank> Acceptor::admit(double now) {
  for (int i = 0; i < kAcceptsAtOnce && now >= rests_until_; ++i) {
    Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        rests_until_ = now + kPause;
      break;
    }
    set_up_connection(socket.get());
    if (pending_.size() >= room_) pending_.erase(pending_.begin());
    pending_.push_back({std::make_unique<Connection>(std::move(socket)), now});
  }

  std::vector<JoiningRank> joining;
  std::erase_if(pending_, [&](Pending& pending) {
    std::optional<Message> first;
    const bool is_open = pending.connection->read([&](const Message& message) {
      if (!first) first = message;
    });
    if (!is_open || !first) return !is_open || now - pending.since > kPendingSeconds;
    if (first->kind == Message::Kind::join && first->text == join_secret_)
      joining.push_back({*first, std::move(pending.connection)});
    return true;
  });
  return joining;
}

}  // namespace ringscope
