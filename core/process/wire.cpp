#include "core/process/wire.h"

#include <algorithm>
#include <climits>

namespace ringscope::wire {
namespace {

constexpr std::size_t kNumberBytes = 8;
// Longer texts are cut, because a failure must fit into a frame.
constexpr std::size_t kMaxFailureText = 4096;

std::uint64_t plus_one(int value) { return static_cast<std::uint64_t>(std::max(value, -1) + 1); }

}  // namespace

Packer& Packer::number(std::uint64_t value) {
  for (std::size_t i = 0; i < kNumberBytes; ++i)
    bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
  return *this;
}

Packer& Packer::text(std::string_view value) {
  number(value.size());
  bytes_ += value;
  return *this;
}

Packer& Packer::secret(const Secret& value) {
  bytes_.append(value.begin(), value.end());
  return *this;
}

std::string_view Unpacker::take(std::uint64_t bytes) {
  if (bytes > rest_.size()) throw Malformed();
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

std::uint64_t Unpacker::number() {
  const std::string_view bytes = take(kNumberBytes);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kNumberBytes; ++i)
    value |= std::uint64_t{static_cast<std::uint8_t>(bytes[i])} << (8 * i);
  return value;
}

std::uint64_t Unpacker::number_below(std::uint64_t bound) {
  const std::uint64_t value = number();
  if (value >= bound) throw Malformed();
  return value;
}

int Unpacker::signed_number() {
  return static_cast<int>(number_below(std::uint64_t{INT_MAX} + 1)) - 1;
}

std::string Unpacker::text() { return std::string(take(number())); }

Secret Unpacker::secret() {
  Secret secret;
  const std::string_view bytes = take(secret.size());
  std::copy(bytes.begin(), bytes.end(), secret.begin());
  return secret;
}

void Unpacker::end() const {
  if (!rest_.empty()) throw Malformed();
}

std::string pack(const JoinRequest& join_request) {
  return Packer()
      .secret(join_request.secret)
      .number(join_request.version)
      .number(plus_one(join_request.rank))
      .number(plus_one(join_request.world_size))
      .take();
}

JoinRequest join_request_from(std::string_view payload) {
  Unpacker in(payload);
  JoinRequest join_request;
  join_request.secret = in.secret();
  join_request.version = static_cast<std::uint32_t>(in.number_below(UINT32_MAX));
  join_request.rank = in.signed_number();
  join_request.world_size = in.signed_number();
  in.end();
  return join_request;
}

std::string pack(const Status& status) {
  return Packer()
      .number(status.where.progress)
      .number(static_cast<std::uint64_t>(status.where.pass))
      .number(plus_one(status.where.step))
      .number(plus_one(status.where.waiting_for))
      .number(status.watch)
      .number(status.is_watched)
      .number(status.is_collecting)
      .take();
}

Status status_from(std::string_view payload) {
  Unpacker in(payload);
  Status status;
  status.where.progress = in.number();
  status.where.pass = in.flag() ? Pass::backward : Pass::forward;
  status.where.step = in.signed_number();
  status.where.waiting_for = in.signed_number();
  status.watch = in.number();
  status.is_watched = in.flag();
  status.is_collecting = in.flag();
  in.end();
  return status;
}

std::string pack(const Failure& failure) {
  return Packer()
      .number(plus_one(failure.rank))
      .number(plus_one(failure.step))
      .number(failure.is_gone)
      .text(std::string_view(failure.message).substr(0, kMaxFailureText))
      .take();
}

Failure failure_from(std::string_view payload) {
  Unpacker in(payload);
  Failure failure;
  failure.rank = in.signed_number();
  failure.step = in.signed_number();
  failure.is_gone = in.flag();
  failure.message = in.text();
  in.end();
  return failure;
}

std::size_t join_request_bytes() { return kHeaderBytes + pack(JoinRequest{}).size(); }

std::size_t welcome_bytes() { return kHeaderBytes + Secret{}.size(); }

std::string frame(Type type, std::string_view payload) {
  std::string bytes;
  bytes.reserve(kHeaderBytes + payload.size());
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(payload.size() >> (8 * i) & 0xff);
  bytes += static_cast<char>(type);
  bytes += payload;
  return bytes;
}

std::optional<Frame> first_frame(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes) return std::nullopt;
  std::size_t size = 0;
  for (std::size_t i = 0; i < 4; ++i)
    size |= std::size_t{static_cast<std::uint8_t>(bytes[i])} << (8 * i);
  const auto type = static_cast<std::uint8_t>(bytes[4]);
  if (size > kMaxPayload || type > static_cast<std::uint8_t>(Type::bye)) throw Malformed();
  if (bytes.size() < kHeaderBytes + size) return std::nullopt;
  return Frame{static_cast<Type>(type), bytes.substr(kHeaderBytes, size), kHeaderBytes + size};
}

}  // namespace ringscope::wire
