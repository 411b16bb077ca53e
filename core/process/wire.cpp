#include "core/process/wire.h"

#include <algorithm>
#include <climits>

namespace ringscope::wire {
namespace {

constexpr std::size_t kNumberBytes = 8;

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

// Numbers from -1 on travel as one more.
void Packer::operator()(int value) { number(static_cast<std::uint64_t>(std::max(value, -1) + 1)); }

void Unpacker::operator()(int& value) {
  value = static_cast<int>(number_below(std::uint64_t{INT_MAX} + 1)) - 1;
}

void Unpacker::operator()(Secret& value) {
  const std::string_view bytes = take(value.size());
  std::copy(bytes.begin(), bytes.end(), value.begin());
}

void Unpacker::end() const {
  if (!rest_.empty()) throw Malformed();
}

std::size_t join_request_bytes() { return kHeaderBytes + pack(JoinRequest{}).size(); }

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
