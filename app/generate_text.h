// A text of any bytes, shown on a terminal as it comes: what is UTF-8 and printable as it is, with
// line ends and tabs, everything else as \x and two digits. So a model that has not learned what
// makes a character can do no harm, and a character of several bytes appears when it is whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ringscope {

class ShownText {
 public:
  // What can be shown now, after `byte`: often nothing, while a character is not whole.
  std::string add(std::uint8_t byte);
  // What is left, at the end of the text.
  std::string finish();

 private:
  std::string held_;  // the beginning of a character
};

// A whole text likewise.
std::string shown(std::string_view text);

// Every byte as two digits, from which the text can be had again: shown() is for eyes.
std::string hex(std::string_view bytes);

}  // namespace ringscope
