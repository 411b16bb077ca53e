#include "core/process/lifeline_impl.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "core/base/error.h"

namespace ringscope {
namespace {

// Rank 0 is asked again if it drops this process because it has too many connections at once.
constexpr int kRounds = 3;
constexpr double kPause = 0.1;
constexpr double kPendingSeconds = 5;

// An address that is being tried.
struct Candidate {
  Descriptor socket;
  bool is_connected = false;
  std::string received;
};

enum class State { open, refused, welcome };

// Advance `candidate` as far as possible without waiting; errno tells why it was refused.
State advance(Candidate& candidate, const std::string& join_request, const Secret& answer) {
  const int fd = candidate.socket.get();
  if (!candidate.is_connected) {
    if (const int error = connect_error(fd); error != 0) {
      errno = error;
      return State::refused;
    }
    candidate.is_connected = true;
    // An empty socket buffer takes so few bytes at once.
    return ::send(fd, join_request.data(), join_request.size(), MSG_NOSIGNAL) ==
                   static_cast<ssize_t>(join_request.size())
               ? State::open
               : State::refused;
  }
  const std::string expected =
      wire::frame(wire::Type::welcome, wire::Packer().secret(answer).take());
  char buffer[64];
  const std::size_t missing = expected.size() - candidate.received.size();
  const ssize_t n = ::recv(fd, buffer, std::min(missing, sizeof buffer), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return State::open;
  if (n <= 0) {
    if (n == 0) errno = ECONNRESET;
    return State::refused;
  }
  candidate.received.append(buffer, static_cast<std::size_t>(n));
  if (candidate.received == expected) return State::welcome;
  errno = EPROTO;
  return expected.starts_with(candidate.received) ? State::open : State::refused;
}

// Try all addresses once. Return none when all refuse or time is over; errno tells (ETIMEDOUT).
std::optional<Descriptor> try_all(const Invitation& invitation, const std::string& join_request,
                                  double until) {
  std::vector<Candidate> candidates;
  int error = ENETUNREACH;
  for (const std::string& address : invitation.addresses) {
    if (std::optional<Descriptor> socket = begin_connect(address, invitation.port))
      candidates.push_back({std::move(*socket), false, ""});
    else
      error = errno;
  }
  while (!candidates.empty()) {
    std::vector<pollfd> polled;
    for (const Candidate& candidate : candidates)
      polled.push_back({candidate.socket.get(),
                        static_cast<short>(candidate.is_connected ? POLLIN : POLLOUT), 0});
    const double left = until - steady_seconds();
    if (left <= 0) {
      errno = ETIMEDOUT;
      return std::nullopt;
    }
    ::poll(polled.data(), polled.size(), static_cast<int>(std::ceil(std::min(left, 1.0) * 1e3)));
    for (std::size_t i = polled.size(); i-- > 0;) {
      if (polled[i].revents == 0) continue;
      const State state = advance(candidates[i], join_request, invitation.answer);
      if (state == State::welcome) return std::move(candidates[i].socket);
      if (state == State::open) continue;
      error = errno;
      candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  errno = error;
  return std::nullopt;
}

}  // namespace

Descriptor reach_rank_0(const Invitation& invitation, int rank, int world_size, double timeout_s) {
  const std::string join_request = wire::frame(
      wire::Type::join_request,
      wire::pack(wire::JoinRequest{invitation.join_secret, wire::kVersion, rank, world_size}));
  const double until = steady_seconds() + timeout_s;
  for (int round = 1;; ++round) {
    if (std::optional<Descriptor> socket = try_all(invitation, join_request, until))
      return std::move(*socket);
    const int error = errno;
    if (round == kRounds || steady_seconds() + kPause >= until)
      throw RunError(
          fmt::format("rank {} cannot reach it at {} (port {}): {}", rank,
                      fmt::join(invitation.addresses, ", "), invitation.port, std::strerror(error)),
          0);
    std::this_thread::sleep_for(std::chrono::duration<double>(kPause));
  }
}

Acceptor::Acceptor(Descriptor listener, const Invitation& invitation, int world_size)
    : listener_(std::move(listener)),
      invitation_(invitation),
      room_(256 + 8 * static_cast<std::size_t>(world_size)) {}

std::vector<int> Acceptor::sockets(double now) const {
  std::vector<int> sockets;
  if (now >= rests_until_) sockets.push_back(listener_.get());
  for (const Pending& pending : pending_) sockets.push_back(pending.socket.get());
  return sockets;
}

std::vector<Acceptor::JoiningRank> Acceptor::admit(double now) {
  while (now >= rests_until_) {
    std::optional<Descriptor> socket = accept_at(listener_.get());
    if (!socket) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        rests_until_ = now + kPause;
      break;
    }
    if (pending_.size() >= room_) pending_.erase(pending_.begin());
    pending_.push_back({std::move(*socket), "", now});
  }

  std::vector<JoiningRank> joining;
  std::erase_if(pending_, [&](Pending& pending) {
    char buffer[128];
    const std::size_t missing = wire::join_request_bytes() - pending.said.size();
    const ssize_t n = ::recv(pending.socket.get(), buffer, std::min(missing, sizeof buffer), 0);
    if (n < 0) return !(errno == EAGAIN || errno == EINTR) || now - pending.since > kPendingSeconds;
    if (n == 0) return true;
    pending.said.append(buffer, static_cast<std::size_t>(n));
    try {
      const std::optional<wire::Frame> frame = wire::first_frame(pending.said);
      if (!frame) return pending.said.size() >= wire::join_request_bytes();
      if (frame->type != wire::Type::join_request) return true;
      const wire::JoinRequest join_request = wire::unpack<wire::JoinRequest>(frame->payload);
      if (join_request.secret == invitation_.join_secret)
        joining.push_back({join_request, std::move(pending.socket)});
    } catch (const wire::Malformed&) {
    }
    return true;
  });
  return joining;
}

std::string Acceptor::answer() const { return wire::Packer().secret(invitation_.answer).take(); }

}  // namespace ringscope
