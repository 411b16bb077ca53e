#include "app/generate_text.h"

#include <fmt/format.h>

#include <utility>

namespace ringscope {
namespace {

std::string escaped(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

// Of a character whose first byte this is; 0: none begins like that.
std::size_t length_of(std::uint8_t first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first >= 0xe0 && first <= 0xef) return 3;
  if (first >= 0xf0 && first <= 0xf4) return 4;
  return 0;
}

// Whether `byte` may be the second one: no character is spelled longer than it has to be, half of a
// surrogate pair, or above U+10FFFF.
bool may_follow(std::uint8_t first, std::uint8_t byte) {
  const std::uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const std::uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  return byte >= least && byte <= most;
}

// U+0000 to U+001F but for tab and line end, U+007F to U+009F, and the marks that turn the
// direction of what is around them.
bool is_control(std::string_view character) {
  const auto first = static_cast<std::uint8_t>(character[0]);
  if (character.size() == 1)
    return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f;
  const auto second = static_cast<std::uint8_t>(character[1]);
  if (first == 0xc2) return second < 0xa0;
  if (first != 0xe2) return false;
  const auto third = static_cast<std::uint8_t>(character[2]);
  return (second == 0x80 &&
          ((third >= 0x8e && third <= 0x8f) || (third >= 0xa8 && third <= 0xae))) ||
         (second == 0x81 && third >= 0xa6 && third <= 0xa9);
}

}  // namespace

std::string ShownText::add(std::uint8_t byte) {
  std::string text;
  if (!held_.empty()) {
    const auto first = static_cast<std::uint8_t>(held_[0]);
    const bool fits = held_.size() == 1 ? may_follow(first, byte) : byte >= 0x80 && byte <= 0xbf;
    if (!fits) text = finish();
  }
  held_ += static_cast<char>(byte);
  const std::size_t length = length_of(static_cast<std::uint8_t>(held_[0]));
  if (held_.size() < length) return text;
  if (length == 0 || is_control(held_)) return text + finish();
  return text + std::exchange(held_, "");
}

std::string ShownText::finish() { return escaped(std::exchange(held_, "")); }

std::string shown(std::string_view text) {
  ShownText shown_text;
  std::string result;
  for (const char c : text) result += shown_text.add(static_cast<std::uint8_t>(c));
  return result + shown_text.finish();
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

}  // namespace ringscope
