#include "core/process/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace ringscope {
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

// Whether all of out_ has left.
bool Connection::write_frames() {
  while (has_unsent_frames()) {
    const ssize_t n = ::send(fd(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (n < 0) {
      // What the peer said before is still to be read; that also tells that it is gone.
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
