// The messages of a lifeline and the connections that they go over. All ranks run the same program,
// so a message's head travels as it lies in memory. Readers trust no length.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "core/base/files.h"

namespace ringscope {

// The one clock for all deadlines of this process.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct MessageHead {
  enum class Kind : std::uint32_t {
    join,     // to rank 0, first of all: `rank` of `number` ranks; the text is the secret
    welcome,  // rank 0's answer, with the other secret
    status,   // a sign of life; the text says what the rank does outside of the ring
    report,   // to rank 0: the run has failed
    lost,     // to rank 0, if it still reads: it was taken for lost
    verdict,  // from rank 0: the run has failed
    bye       // to rank 0: this rank is done; from rank 0: all are
  };
  Kind kind = Kind::status;
  std::int32_t rank = -1;         // of a failure: the rank that is named
  std::int32_t step = -1;         // where that rank is
  std::int32_t pass = 0;          // of a status
  std::int32_t waiting_for = -1;  // likewise
  std::int32_t number = 0;        // of a failure: the exit status
  std::uint64_t progress = 0;     // of a status
  std::uint64_t text_bytes = 0;
};

struct Message : MessageHead {
  static constexpr std::size_t kMaxText = 4096;  // longer texts are cut

  Message() = default;
  Message(Kind its_kind, std::string its_text) : text(std::move(its_text)) { kind = its_kind; }

  std::string text;
};

// One end of a lifeline: messages in and out of a nonblocking socket, without ever waiting for it.
class Connection {
 public:
  using OnMessage = std::function<void(const Message&)>;

  explicit Connection(Descriptor socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }

  // Send as much as the socket takes at once. The rest waits for write().
  void send(const Message& message);
  void write();
  bool has_unsent() const { return !out_.empty(); }
  // Call on_message for what has arrived. Return false when nothing more will come, because the peer
  // closed or sent something else.
  bool read(const OnMessage& on_message);
  void end_writing();  // the peer reads an end after what was sent

 private:
  bool take_messages(const OnMessage& on_message);

  Descriptor socket_;
  std::string in_, out_;
};

}  // namespace ringscope
