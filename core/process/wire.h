// The protocol of the lifeline. A frame is the payload's length (4 bytes, least significant first),
// a type byte and the payload. Long messages go as many small frames, so that a sign of life never
// waits behind one. Readers trust no length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/process/invitation.h"
#include "core/run/watchdog.h"

namespace ringscope::wire {

inline constexpr std::uint64_t kVersion = 1;
inline constexpr std::size_t kHeaderBytes = 5;
inline constexpr std::size_t kMaxPayload = 64 << 10;
inline constexpr std::size_t kMaxText = 4096;
inline constexpr std::size_t kMaxMessage = std::size_t{1} << 32;  // of many frames

enum class Type : std::uint8_t {
  join_request,  // from the others, first of all
  welcome,       // rank 0's answer
  status,        // a sign of life
  report,        // a rank to rank 0: something failed
  verdict,       // rank 0 to all: the run has failed
  message_part,  // of a collective; message_end is its last part
  message_end,
  words_part,  // part of the last words
  words_end,
  words_heard,  // rank 0 has the last words
  spoken,       // rank 0 has said what happened
  bye           // a rank to rank 0: it has nothing more to say; rank 0 to all: nor has anybody
};

// Thrown when the bytes are not of this protocol.
class Malformed : public std::runtime_error {
 public:
  Malformed() : std::runtime_error("malformed") {}
};

class Packer {
 public:
  Packer& number(std::uint64_t value);
  Packer& text(std::string_view value);
  Packer& secret(const Secret& value);
  std::string take() { return std::move(bytes_); }

  // Add a field of one of the messages below.
  void operator()(std::uint64_t value) { number(value); }
  void operator()(int value);  // -1 and above
  void operator()(bool value) { number(value); }
  void operator()(Pass value) { number(static_cast<std::uint64_t>(value)); }
  // Longer texts are cut, because a message must fit into a frame.
  void operator()(const std::string& value) { text(std::string_view(value).substr(0, kMaxText)); }
  void operator()(const Secret& value) { secret(value); }

 private:
  std::string bytes_;
};

// Takes values from packed bytes. Throw Malformed when fewer are left than are asked for.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}
  std::uint64_t number();
  std::uint64_t number_below(std::uint64_t bound);
  std::string text() { return std::string(take(number())); }
  void end() const;  // throws when bytes are left

  // Set a field of one of the messages below.
  void operator()(std::uint64_t& value) { value = number(); }
  void operator()(int& value);
  void operator()(bool& value) { value = number_below(2) == 1; }
  void operator()(Pass& value) { value = number_below(2) == 1 ? Pass::backward : Pass::forward; }
  void operator()(std::string& value) { value = text(); }
  void operator()(Secret& value);

 private:
  std::string_view take(std::uint64_t bytes);
  std::string_view rest_;
};

// ---
// The messages that have fields. for_fields() lists them in the order of the frame.

struct JoinRequest {
  Secret secret{};
  std::uint64_t version = kVersion;
  int rank = -1;
  int world_size = -1;

  template <class Message, class F>
  static void for_fields(Message& m, F&& f) {
    f(m.secret), f(m.version), f(m.rank), f(m.world_size);
  }
};

struct Status {
  RankStatus where;
  std::uint64_t watch = 0;     // how often watch() was called
  bool is_watched = false;     // between watch() and unwatch()
  bool is_collecting = false;  // rank 0 waits for others in a collective

  template <class Message, class F>
  static void for_fields(Message& m, F&& f) {
    f(m.where.progress), f(m.where.pass), f(m.where.step), f(m.where.waiting_for);
    f(m.watch), f(m.is_watched), f(m.is_collecting);
  }
};

struct Failure {
  int rank = -1;
  int step = -1;
  bool is_gone = false;  // the rank can say nothing itself
  std::string message;

  RunError error() const { return RunError(message, rank, step); }

  template <class Message, class F>
  static void for_fields(Message& m, F&& f) {
    f(m.rank), f(m.step), f(m.is_gone), f(m.message);
  }
};

template <class Message>
std::string pack(const Message& message) {
  Packer packer;
  Message::for_fields(message, packer);
  return packer.take();
}

template <class Message>
Message unpack(std::string_view payload) {
  Unpacker unpacker(payload);
  Message message;
  Message::for_fields(message, unpacker);
  unpacker.end();
  return message;
}

std::size_t join_request_bytes();  // of the whole frame

// Return the whole frame. `payload` has at most kMaxPayload bytes.
std::string frame(Type type, std::string_view payload);

struct Frame {
  Type type;
  std::string_view payload;
  std::size_t bytes;  // with its header
};

// Return the first frame in `bytes`, or none while it is incomplete. Throw Malformed.
std::optional<Frame> first_frame(std::string_view bytes);

}  // namespace ringscope::wire
