// Calls that are refused, from tables such as refusals.txt: exit status 2, one line on stderr with the
// parts that the table names and what would be accepted, nothing on stdout, and no file left behind.
#pragma once

#include <string>

#include "tests/app/call_table.h"

namespace ringscope {

class RefusingProgramTest : public ProgramTest {
 protected:
  // Make all calls of the table, a file of the source folder. Return how many there are.
  int expect_refusals(const std::string& table) const {
    return for_each_call(table, [&](const Strings& words, const Strings& parts) {
      expect_refused(words, Strings{"accepted"} + parts);
    });
  }
};

}  // namespace ringscope
