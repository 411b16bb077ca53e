// Keys mean one thing each, and nothing is bound that the help doesn't say.
#include "viz/data/session/session.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace ringscope::viz {
namespace {

// As the help writes keys.
std::string name_of(const Key& key) {
  static const std::map<SpecialKey, std::string> names = {
      {SpecialKey::left, "Left"},   {SpecialKey::right, "Right"},
      {SpecialKey::home, "Home"},   {SpecialKey::end, "End"},
      {SpecialKey::escape, "Esc"},  {SpecialKey::backspace, "Backspace"},
      {SpecialKey::enter, "Enter"}, {SpecialKey::tab, "Tab"}};
  if (key.special != SpecialKey::none) return (key.shift ? "Shift-" : "") + names.at(key.special);
  if (key.character == U' ') return "Space";
  const char c = static_cast<char>(key.character);
  if (c < ' ') return std::string("Ctrl-") + static_cast<char>(c + '@');
  if (c >= 'A' && c <= 'Z') return std::string("Shift-") + c;
  return std::string(1, c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
}

// "A, D" and ". ," are two keys each; a comma that stands alone is a key.
std::vector<std::string> keys_of(std::string_view text) {
  std::vector<std::string> keys;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    std::string key(text.substr(at, end - at));
    if (key.size() > 1 && key.back() == ',') key.pop_back();
    keys.push_back(key);
    at = end + 1;
  }
  return keys;
}

// No key is bound twice, and the help lists every key and every gesture once, and nothing else.
TEST(Commands, TheHelpListsEveryKeyAndGestureOnce) {
  std::multiset<std::string> known = {"Wheel",        "Shift-Wheel", "Ctrl-Wheel", "Left-drag",
                                      "Right-drag",   "Shift-drag",  "Click",      "Right-click",
                                      "Double-click", "Ctrl-+",      "Ctrl--",     "Ctrl-0"};
  for (const KeyBinding& binding : key_bindings()) known.insert(name_of(binding.key));
  std::multiset<std::string> listed;
  for (const HelpLine& line : help_lines()) {
    EXPECT_FALSE(line.text.empty()) << line.keys;
    for (const std::string& key : keys_of(line.keys)) listed.insert(key);
  }
  EXPECT_EQ(listed, known);
  for (const std::string& key : known) EXPECT_EQ(known.count(key), 1u) << key;
}

// A special key has no character, and only special keys know Shift.
TEST(Commands, KeysAreWellFormed) {
  for (const KeyBinding& binding : key_bindings()) {
    const Key& key = binding.key;
    EXPECT_NE(key.character == 0, key.special == SpecialKey::none) << name_of(key);
    if (key.character != 0) {
      EXPECT_FALSE(key.shift) << name_of(key);
    }
  }
}

}  // namespace
}  // namespace ringscope::viz
