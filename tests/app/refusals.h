// Calls that are refused, from tables such as refusals.txt: exit status 2, one line on stderr with the
// parts that the table names and what would be accepted, nothing on stdout, and no file left behind.
#pragma once

#include <iomanip>
#include <map>
#include <sstream>
#include <string>

#include "core/base/text.h"
#include "tests/app/program.h"

namespace ringscope {

class RefusingProgramTest : public ProgramTest {
 protected:
  // Make all calls of the table, a file of the source folder. Return how many there are.
  int expect_refusals(const std::string& table) const {
    std::map<std::string, Strings> set;
    int cases = 0;
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
      Strings parts{"accepted"};
      for (std::size_t at = arrow + 3, end = 0; end != line.npos; at = end + 3) {
        end = line.find(" & ", at);
        parts.push_back(line.substr(at, end - at));
      }
      expect_refused(words, parts);
      ++cases;
    });
    return cases;
  }

 private:
  // Return the words of a call, of which those in quotes may be empty or have blanks.
  static Strings words_of_call(const std::string& call) {
    std::istringstream text(call);
    Strings words;
    for (std::string word; text >> std::quoted(word);) words.push_back(word);
    return words;
  }
};

}  // namespace ringscope
