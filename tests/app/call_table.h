// Tables of calls and of what is expected of them: "CALL -> PART & PART". A line "WORD = CALL" names the
// beginning of others, and lines that begin with # are comments.
#pragma once

#include <gtest/gtest.h>

#include <iomanip>
#include <map>
#include <sstream>
#include <string>

#include "core/base/text.h"
#include "tests/app/program.h"

namespace ringscope {

// Return the words of a call, of which those in quotes may be empty or have blanks.
inline Strings words_of_call(const std::string& call) {
  std::istringstream text(call);
  Strings words;
  for (std::string word; text >> std::quoted(word);) words.push_back(word);
  return words;
}

// Call f(words, parts) for each call of the table, a file of the source folder. Return how many there are.
template <class F>
int for_each_call(const std::string& table, const F& f) {
  std::map<std::string, Strings> set;
  int calls = 0;
  for_each_line(contents_of(RINGSCOPE_SOURCE_DIR "/" + table), [&](std::string_view view) {
    const std::string line(view);
    const std::size_t arrow = line.find("-> "), equals = line.find(" = ");
    if (line.empty() || line[0] == '#') return;
    if (arrow == line.npos) {
      ASSERT_NE(equals, line.npos) << line;
      set[line.substr(0, equals)] = line.substr(equals + 3);
      return;
    }
    Strings words = words_of_call(line.substr(0, arrow));
    if (!words.empty() && set.contains(words[0])) {
      const Strings begin = set[words[0]];
      words.erase(words.begin());
      words.insert(words.begin(), begin.begin(), begin.end());
    }
    Strings parts;
    for (std::size_t at = arrow + 3, end = 0; end != line.npos; at = end + 3) {
      end = line.find(" & ", at);
      parts.push_back(line.substr(at, end - at));
    }
    f(words, parts);
    ++calls;
  });
  return calls;
}

class RefusingProgramTest : public ProgramTest {
 protected:
  // Make all calls of a table, a file of the source folder, and expect that they are refused with the
  // parts that it names and what would be accepted. Return how many there are.
  int expect_refusals(const std::string& table) const {
    return for_each_call(table, [&](const Strings& words, const Strings& parts) {
      expect_refused(words, Strings{"accepted"} + parts);
    });
  }
};

}  // namespace ringscope
