#include "core/processes/supervision/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

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

}  // namespace ringscope
