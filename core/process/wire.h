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

inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kHeaderBytes = 5;
inline constexpr std::size_t kMaxPayload = 64 << 10;
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

 private:
  std::string bytes_;
};

// Takes values from packed bytes. Throw Malformed when fewer are left than are asked for.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}
  std::uint64_t number();
  std::uint64_t number_below(std::uint64_t bound);
  int signed_number();  // packed as number(value + 1), value >= -1
  bool flag() { return number_below(2) == 1; }
  std::string text();
  Secret secret();
  void end() const;  // throws when bytes are left

 private:
  std::string_view take(std::uint64_t bytes);
  std::string_view rest_;
};

struct JoinRequest {
  Secret secret{};
  std::uint32_t version = kVersion;
  int rank = -1;
  int world_size = -1;
};

struct Status {
  RankStatus where;
  std::uint64_t watch = 0;     // how often watch() was called
  bool is_watched = false;     // between watch() and unwatch()
  bool is_collecting = false;  // rank 0 waits for others in a collective
};

struct Failure {
  int rank = -1;
  int step = -1;
  bool is_gone = false;  // the rank can say nothing itself
  std::string message;

  RunError error() const { return RunError(message, rank, step); }
};

std::string pack(const JoinRequest& join_request);
std::string pack(const Status& status);
std::string pack(const Failure& failure);
JoinRequest join_request_from(std::string_view payload);
Status status_from(std::string_view payload);
Failure failure_from(std::string_view payload);

std::size_t join_request_bytes();  // of the whole frame
std::size_t welcome_bytes();       // likewise

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
