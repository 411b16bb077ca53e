// One end of a lifeline: frames in and out of a socket, without ever waiting for it.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/process/socket.h"
#include "core/process/wire.h"

namespace ringscope {

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
