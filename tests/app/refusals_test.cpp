// What every command refuses: exit status 2, one line on stderr with the parts that refusals.txt names
// and what would be accepted, nothing on stdout, and no file left behind.
#include <gtest/gtest.h>

#include <filesystem>
#include <iomanip>
#include <map>

#include "core/base/files.h"
#include "core/base/text.h"
#include "tests/app/program.h"
#include "tests/core/model/checkpoint_case.h"

namespace ringscope {
namespace {

class RefusalsTest : public ProgramTest {
 protected:
  void write_files() const {
    for (const char* name : {"q.npy", "k.npy", "v.npy"})
      write_tensor(name, {1, 2, 5, 3}, [](Index i) { return 0.1 * static_cast<double>(i % 7); });
    std::vector<Index> ranks;
    for (Index p = 0; p < 200; ++p) ranks.push_back(p * p % 7 % 3);
    AtomicFile file(path("ranks.npy"));
    write_npy_integers(file, {200}, ranks);
    file.commit();
    for (const auto& [name, text] :
         std::map<std::string, std::string>{{"t.txt", std::string(1000, 'x')},
                                            {"ten.txt", "0123456789"},
                                            {"empty.txt", ""},
                                            {"large", std::string((1 << 20) + 1, 'x')},
                                            {"slices.txt", "0 9 0 9 full\n3 4 3 4 full\n"},
                                            {"outside.txt", "0 9 0 201 full\n"},
                                            {"bad.txt", "gpu a\ntflops_16bit 0\nmemory_gb 1\n"},
                                            {"slow.txt", "link slow\ngb_per_s -3\n"}})
      write_text(name, text);
    save_checkpoint(path("c"), small_checkpoint(256));
    save_checkpoint(path("full"), small_checkpoint(256, "full"));
    save_checkpoint(path("few"), small_checkpoint(17));
  }
};

// Return the words of a call, of which those in quotes may be empty or have blanks.
Strings words_of_call(const std::string& call) {
  std::istringstream text(call);
  Strings words;
  for (std::string word; text >> std::quoted(word);) words.push_back(word);
  return words;
}

TEST_F(RefusalsTest, NameTheFlagTheValueAndWhatIsAccepted) {
  write_files();
  std::map<std::string, Strings> set;
  int cases = 0;
  for_each_line(contents_of(RINGSCOPE_SOURCE_DIR "/tests/app/refusals.txt"),
                [&](std::string_view view) {
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
  EXPECT_GT(cases, 300);
}

}  // namespace
}  // namespace ringscope
